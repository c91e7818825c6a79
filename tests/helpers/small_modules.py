"""Modules of a few lines, and exports by a spec that is derived from a sample."""

from torch import nn

import onnxfn


def module(forward, **members):
    """A module with these members, whose forward is a function of the module and of its arguments."""
    model = type("Module", (nn.Module,), {"forward": forward})()
    for name, member in members.items():
        setattr(model, name, member)
    return model


def derived_export(model, sample, path=None, axes=None, **options):
    """The export of a model by the spec that is derived from a sample of its arguments; its check passed."""
    result = onnxfn.export(onnxfn.derived(model, sample=sample, axes=axes or {}, **options), model, path)
    assert result.report.passed
    return result

"""Own modules are exported from a sample, and agree with PyTorch at sizes, values and dtypes that were not traced."""

from importlib.metadata import version

import numpy as np
import pytest
import torch
from own_modules import OWN_MODULES

import onnxfn
from onnxfn.models.forward import torch_outputs
from onnxfn.run.sessions import open_session
from onnxfn.specs.plan.size_cases import within

DEFAULT = (
    "Embedding",
    "GRU",
    "LSTM of two directions",
    "RNN",
    "Conv1d",
    "MaxPool1d",
    "TransformerEncoder",
    "LogSigmoid",
    "PixelUnshuffle",
    "tagger",
    "captioner",
    "attentive",
    "float64",
    "casts",
    "arithmetic in int16",
    "arithmetic in uint8",
    "products in uint64",
    "reductions in int16",
)
"""The modules of the default run; the others are in the sweep."""


NO_UINT64 = pytest.mark.skipif(
    version("torch").startswith("2.12."), reason="torch 2.12 has no `where` for uint64: the module itself does not run"
)


def marks(name):
    return (*(() if name in DEFAULT else (pytest.mark.sweep,)), *((NO_UINT64,) if name == "products in uint64" else ()))


def exported(name, path):
    torch.manual_seed(0)
    own = OWN_MODULES[name]
    model = own.build()
    spec = onnxfn.derived(model, sample=own.sample, axes=own.axes)
    return onnxfn.export(spec, model, path), model


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in OWN_MODULES])
def test_a_module_agrees_at_sizes_values_and_dtypes_that_were_not_traced(name, tmp_path):
    result, model = exported(name, tmp_path / "model.onnx")
    assert result.report.passed
    assert "batch_size" in {symbol for axes in result.inputs.values() for symbol in axes.values()}
    part, session = result.plan.parts[0], open_session(tmp_path / "model.onnx")
    model = onnxfn.models.submodules.as_module(model)
    for seed, batch in ((1, 1), (2, 5)):
        inputs = onnxfn.specs.algebra.dummies.dummies(part.spec, other_sizes(part, result.limits, batch), seed=seed)
        actual = session.run(None, inputs)
        expected = torch_outputs(model, part, inputs)
        for output, ours, theirs in zip(part.spec.outputs, actual, expected, strict=True):
            same_kind = ours.dtype == theirs.dtype or {ours.dtype, theirs.dtype} <= {np.dtype("f2"), np.dtype("f4")}
            assert same_kind, (output.name, ours.dtype, theirs.dtype)
            rounding = 1e-2 if "f2" in (ours.dtype.str[1:], theirs.dtype.str[1:]) else 1e-4
            np.testing.assert_allclose(ours, theirs, rtol=rounding, atol=rounding, err_msg=output.name)


def other_sizes(part, limits, batch):
    """Sizes of the dynamic axes that no case of the check has."""
    planned = onnxfn.specs.algebra.dummies.known_sizes(part.spec, {})
    more = {name: size + 7 + batch for name, size in planned.items()}
    return within(more | {"batch_size": batch}, limits)


def test_the_modules_of_the_default_run_are_in_the_table():
    assert set(DEFAULT) <= OWN_MODULES.keys()

"""A process in which an export takes as long as every later one."""

from functools import cache

import tiny

import onnxfn


@cache
def warm() -> None:
    spec = onnxfn.spec_for("vit", "feature-extraction")
    onnxfn.export(spec, tiny.model("vit", spec.call.loader))

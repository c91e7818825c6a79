"""Tensors of a spec by name: what `spec["input_ids"]` and `"input_ids" in spec` return."""

from __future__ import annotations

from typing import Any

from onnxfn.specs.errors import unknown
from onnxfn.specs.records import InputSpec, OutputSpec


def tensor_of(spec: Any, name: str) -> InputSpec | OutputSpec:
    """The input of a name, else the output of that name. Those that only a task or a part has are not among them.

    Raises:
        UnknownName: the spec has neither.
    """
    tensors: dict[str, InputSpec | OutputSpec] = {tensor.name: tensor for tensor in (*spec.outputs, *spec.inputs)}
    if name not in tensors:
        raise unknown("input or output", name, tensors, of=spec.name or "this spec")
    return tensors[name]


def has_tensor(spec: Any, name: object) -> bool:
    """Whether a spec has an input or output of a name."""
    return any(tensor.name == name for tensor in (*spec.inputs, *spec.outputs))

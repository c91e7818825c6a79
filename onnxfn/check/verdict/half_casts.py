"""Models that compute in float16 or bfloat16 inside, by a cast or by autocast, although their own dtype is wider.

PyTorch's outputs in float64 have the same casts, so its own error seems to be zero there. For such a model alone, and
only where an output does not agree, PyTorch computes once more in float64 without the casts. What its own outputs lose
against that is its own error, and the rule is that of float16. An output that loses nothing is judged as before.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from onnxfn.check.cases.references import OutputArrays
from onnxfn.check.verdict.verdict import ExactOutputs, no_reference
from onnxfn.models.forward import torch_outputs
from onnxfn.models.torch_modes import torch_operators
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.algebra.planned import Part

WIDE = (None, "float32", "float64")
"""The planned float dtypes that are wider than float16."""


def half_module(model: Any, part: Part, inputs: Mapping[str, Array]) -> str | None:
    """The path of the first module that computes in float16 or bfloat16; empty for the model itself, None if none."""
    names = {id(module): name for name, module in model.named_modules()}
    paths: list[str] = []

    def run(operator: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        result = operator(*arguments, **named)
        if not paths and any(map(_is_half, result if isinstance(result, (tuple, list)) else (result,))):
            paths.append(_innermost(names))
        return result

    if part.spec.target.float_dtype not in WIDE or any(map(_is_half, model.state_dict().values())):
        return None
    with torch_operators(run):
        torch_outputs(model, part, inputs)
    return paths[0] if paths else None


def outputs_without_casts(model: Any, path: str) -> ExactOutputs:
    """A function that computes PyTorch's outputs in float64, also where the module at a path asks for another dtype."""
    name = f"float64, without the casts to float16 in {repr(path) if path else 'the model'}"

    def run(operator: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        import torch

        is_narrow = named.get("dtype") in (torch.float16, torch.bfloat16, torch.float32)  # float32: back from float16
        wide = {"dtype": torch.float64} if is_narrow else {}
        return operator(*arguments, **{**named, **wide})

    def outputs(part: Part, inputs: Mapping[str, Array]) -> tuple[str, OutputArrays]:
        import torch

        with no_reference(name), torch_operators(run):
            return name, torch_outputs(model, part, inputs, torch.float64)

    return outputs


def half_finding(model: Any, path: str) -> str:
    """What to say of a model whose outputs differ, and which computes in float16 in the module at a path."""
    where = f" in {path!r}" if path else ""
    return (
        f"{type(model).__name__} computes in float16 or bfloat16{where}, and differs by more than PyTorch's own "
        "rounding there; leave out that cast or autocast, or say with_tolerance(spec, atol=...)"
    )


def _is_half(tensor: Any) -> bool:
    return str(getattr(tensor, "dtype", "")) in ("torch.float16", "torch.bfloat16")


def _innermost(names: Mapping[int, str]) -> str:
    """The path of the innermost module whose `forward` runs; empty if that is the model itself."""
    frame = inspect.currentframe()
    while frame is not None:
        name = names.get(id(frame.f_locals.get("self")))
        if name is not None:
            return name
        frame = frame.f_back
    return ""

"""Models that compute in float16 or bfloat16 inside, by a cast or by autocast, although their own dtype is wider.

PyTorch's outputs in float64 have the same casts, so its own error seems to be zero there. For such a model alone, and
only where an output does not agree, PyTorch computes once more in float64 without the casts. What its own outputs lose
against that is its own error, and the rule is that of float16. An output that loses nothing is judged as before.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from attrs import evolve

from onnxfn.check.compare import FEW_ELEMENTS, Comparison, allowed, allowed_by_scale, always_allowed, own_norms
from onnxfn.check.exact_outputs import NoReference
from onnxfn.check.norms import NO_ERROR, Norms, Scale, larger, largest
from onnxfn.check.precision import precision_of
from onnxfn.check.references import OutputArrays, Reference
from onnxfn.check.usual_errors import OTHER_INPUTS
from onnxfn.check.valid_elements import valid_elements
from onnxfn.graphs.capture.forward import torch_outputs
from onnxfn.graphs.capture.torch_modes import torch_operators
from onnxfn.specs.dummies import Array
from onnxfn.specs.planned import Part

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


def compared_in_half(
    model: Any, part: Part, reference: Reference, outputs: OutputArrays, comparisons: Sequence[Comparison], path: str
) -> tuple[Comparison, ...]:
    """The comparisons of a case; those that failed are judged by what PyTorch loses in float16 in the module `path`.

    In an output of few elements that may be little by luck: there PyTorch's largest error for several inputs counts.
    """
    by = f"PyTorch in float64, without the casts to float16 in {repr(path) if path else 'the model'}"
    other, numbers = reference.other, range(1, OTHER_INPUTS + 1)
    usual = cache(lambda: [_errors(model, part, other(number)) for number in numbers] if other else [])
    judged = []
    try:
        exact, own = _outputs_without_half(model, part, reference.inputs), _errors(model, part, reference)
        for index, (comparison, actual) in enumerate(zip(comparisons, outputs, strict=True)):
            arrays = actual, reference.outputs[index], exact[index]
            is_few = actual.size <= FEW_ELEMENTS and not comparison.passed
            norms = larger(own[index], *(errors[index] for errors in (usual() if is_few else ())))
            judged.append(comparison if comparison.passed else _judged(comparison, by, part, arrays, norms))
    except NoReference:
        return tuple(comparisons)
    return tuple(judged)


def _errors(model: Any, part: Part, reference: Reference) -> list[Norms]:
    """The norms of what PyTorch loses in float16 in each output of a reference. Raises NoReference."""
    exact = _outputs_without_half(model, part, reference.inputs)
    pairs = zip(part.spec.outputs, reference.outputs, exact, strict=True)
    return [
        own_norms(part.spec, *map(valid_elements(part.spec, output, reference.inputs), arrays))
        if arrays[0].dtype.kind == "f"
        else NO_ERROR
        for output, *arrays in pairs
    ]


def half_finding(model: Any, path: str) -> str:
    """What to say of a model whose outputs differ, and which computes in float16 in the module at a path."""
    where = f" in {path!r}" if path else ""
    return (
        f"{type(model).__name__} computes in float16 or bfloat16{where}, and differs by more than PyTorch's own "
        "rounding there; leave out that cast or autocast, or say with_tolerance(spec, atol=...)"
    )


def _judged(comparison: Comparison, by: str, part: Part, arrays: Sequence[Array], own: Norms) -> Comparison:
    """The comparison of an output by the rule of float16; unchanged if PyTorch's own error is none of float16.

    `arrays` are ONNX Runtime's, PyTorch's and the exact one.
    """
    narrow, wide = precision_of("float16"), precision_of(part.spec.target.float_dtype)
    is_rounding = always_allowed(wide).rms < own.rms <= narrow.factor * allowed_by_scale(narrow).rms
    if len({array.shape for array in arrays}) > 1 or not is_rounding or not np.isfinite(arrays[-1]).all():
        return comparison
    actual, expected, exact = (array.astype(np.float64) for array in arrays)
    scale, bound = Scale.of(expected, wide), allowed(narrow, own)
    error = scale.norms(actual - exact)
    return evolve(
        comparison,
        max_abs=largest(actual - exact),
        max_rel=error.peak,
        tolerance=bound.peak * scale.rms,
        passed=error <= bound,
        own_error=largest(expected - exact),
        reference=by,
    )


def _outputs_without_half(model: Any, part: Part, inputs: Mapping[str, Array]) -> OutputArrays:
    """PyTorch's outputs in float64, also where the model asks for another float dtype. Raises NoReference."""
    import torch

    def run(operator: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        is_narrow = named.get("dtype") in (torch.float16, torch.bfloat16, torch.float32)  # float32: back from float16
        wide = {"dtype": torch.float64} if is_narrow else {}
        return operator(*arguments, **{**named, **wide})

    try:
        with torch_operators(run):
            return torch_outputs(model, part, inputs, torch.float64)
    except Exception as error:
        raise NoReference("float64 without casts cannot run") from error


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

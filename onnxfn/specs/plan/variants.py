"""Variants: the plans of one model in several dtypes, as one plan whose files have a suffix for each dtype."""

from collections.abc import Callable, Iterable
from functools import cache

from attrs import evolve

from onnxfn.specs.algebra.planned import Part, Plan
from onnxfn.specs.algebra.quantized_dtypes import QUANTIZED_DTYPES, QuantizedDtype
from onnxfn.specs.algebra.spec import FloatDtype
from onnxfn.specs.converters import as_tuple
from onnxfn.specs.edits.tensors import FLOAT_NAMES
from onnxfn.specs.errors import InvalidSpec, refuse_unknown


def checked_dtypes(dtypes: Iterable[str]) -> tuple[str, ...]:
    """The names of dtypes as a tuple. UnknownName for another name, InvalidSpec for one that comes twice."""
    names = as_tuple(dtypes)
    for name in names:
        refuse_unknown("dtype", str(name), FLOAT_NAMES)
        if names.count(name) > 1:
            raise InvalidSpec(f"dtypes has {name!r} twice: each dtype has files of its own")
    return names


def variants_plan(
    plan_in: Callable[[FloatDtype], Plan], dtypes: Iterable[str], suffix_of: Callable[[str], str]
) -> Plan:
    """The plan of all dtypes: the parts of the first by `plan_in`, with `suffix_of` it, then of the second."""
    planned = cache(plan_in)
    plans = {dtype: planned(_meaning(dtype).float_dtype) for dtype in dtypes}
    parts = (_variant_part(part, dtype, suffix_of(dtype)) for dtype, each in plans.items() for part in each.parts)
    return evolve(next(iter(plans.values())), parts=tuple(parts))


def plans_by_dtype(plan: Plan) -> dict[str | None, Plan]:
    """The plan of each variant, by its dtype; the plan itself under None if it has no variants."""
    dtypes = dict.fromkeys(part.dtype for part in plan.parts)
    return {dtype: evolve(plan, parts=tuple(part for part in plan.parts if part.dtype == dtype)) for dtype in dtypes}


def _meaning(dtype: str) -> QuantizedDtype:
    """What the name of a dtype stands for; a float dtype has no rules."""
    return QUANTIZED_DTYPES.get(dtype) or QuantizedDtype(dtype, ())  # type: ignore[arg-type]


def _variant_part(part: Part, dtype: str, suffix: str) -> Part:
    """The part for a dtype. Rules of the spec follow those of a quantized dtype, so that they win."""
    spec, rules = part.spec, _meaning(dtype).rules
    target = evolve(spec.target, quantization=(*rules, *spec.target.quantization) if rules else ())
    links = tuple(evolve(link, part=f"{link.part}{suffix}") for link in spec.links)
    return evolve(
        part,
        name=f"{part.name}{suffix}",
        spec=evolve(spec, target=target, links=links),
        filler=tuple(_variant_part(filler, dtype, suffix) for filler in part.filler),
        dtype=dtype,
    )

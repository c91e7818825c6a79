"""Where a configuration keeps things: dotted paths and named getters over a plain snapshot of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from onnxfn.specs.errors import InvalidSpec, MissingValue, closest, listed, unknown
from onnxfn.specs.records import ExportSpec, Getter, Normalizer, Read, Source

Snapshot = Mapping[str, Any]


def reads(**sources: Source) -> ExportSpec:
    """A spec that says where a configuration keeps some names: `reads(num_layers="n_layer")`."""
    return ExportSpec(normalizer=Normalizer(tuple(Read(name, source) for name, source in sources.items())))


def from_config(source: Source) -> Getter:
    """What the configuration holds there, where a plain text would be meant as it is."""
    return Getter("from_config", (source,))


def either(*sources: Source) -> Getter:
    """The first of several places that holds something."""
    return Getter("either", sources)


def quotient(over: Source, under: Source) -> Getter:
    """One number divided by another, whole."""
    return Getter("quotient", (over, under))


def nearest(over: Source, under: Source) -> Getter:
    """The whole number that is nearest to one number divided by another, the even one of two that are as near."""
    return Getter("nearest", (over, under))


def product(*sources: Source) -> Getter:
    """Several numbers multiplied."""
    return Getter("product", sources)


def item(source: Source, index: int) -> Getter:
    """One of several that the configuration lists there; a place that holds no list lacks it."""
    return Getter("item", (source, index))


def power(base: Source, exponent: Source) -> Getter:
    """One number multiplied by itself as often as another says."""
    return Getter("power", (base, exponent))


def total(*sources: Source) -> Getter:
    """Several numbers added."""
    return Getter("total", sources)


def count(source: Source) -> Getter:
    """How many the configuration lists there."""
    return Getter("count", (source,))


def constant(value: float | tuple[int, ...]) -> Getter:
    """A number, or several, that no configuration holds."""
    return Getter("constant", (value,))


def at_least(source: Source, least: float) -> Getter:
    """True when the configuration holds this number there, or more."""
    return Getter("at_least", (source, least))


def negated(source: Source) -> Getter:
    """True when the configuration holds nothing there, or something false."""
    return Getter("negated", (source,))


def equals(source: Source, value: str | float) -> Getter:
    """True when the configuration holds just this value there."""
    return Getter("equals", (source, value))


def if_else(condition: Source, then: Source, otherwise: Source) -> Getter:
    """One of two places, by what the configuration holds at a third."""
    return Getter("if_else", (condition, then, otherwise))


def indices_where(source: Source, *kinds: str) -> Getter:
    """Where in a list that the configuration holds one of these stands: `indices_where("layer_types", "conv")`."""
    return Getter("indices_where", (source, *kinds))


def complement(count: Source, listed: Source) -> Getter:
    """The places below a number that are not in a list that the configuration holds."""
    return Getter("complement", (count, listed))


def every_nth(count: Source, period: Source, offset: Source) -> Getter:
    """The places below a number, one a period: `every_nth("num_layers", "attn_layer_period", "offset")`."""
    return Getter("every_nth", (count, period, offset))


def difference(source: Source, taken: Source) -> Getter:
    """One number less another."""
    return Getter("difference", (source, taken))


def less_than(listed: Source, limit: Source) -> Getter:
    """Those of several places that are less than a number."""
    return Getter("less_than", (listed, limit))


def first_with(source: Source, key: str) -> Getter:
    """What the first entry of a dict of dicts that says it holds under this key."""
    return Getter("first_with", (source, key))


def repeated(source: Source, times: Source) -> Getter:
    """One number, as a list in which it stands as often as another says."""
    return Getter("repeated", (source, times))


def log2(source: Source) -> Getter:
    """How often a number is halved until it is 1."""
    return Getter("log2", (source,))


def maximum(listed: Source) -> Getter:
    """The greatest of the numbers that the configuration lists there."""
    return Getter("maximum", (listed,))


def rounded_to_even(listed: Source) -> Getter:
    """The numbers that the configuration lists there, the odd ones less one."""
    return Getter("rounded_to_even", (listed,))


def convolved(length: Source, kernels: Source, strides: Source) -> Getter:
    """The formula of a length after convolutions one after the other, each with its kernel and its stride.

    `length` is the symbol of an axis, or a getter of such a formula. Padding makes a kernel smaller, at both ends.
    """
    return Getter("convolved", (length, kernels, strides))


def read_config(normalizer: Normalizer, config: Snapshot, source: Source) -> Any:
    """What a configuration holds under a name that specs use, a dotted path, or a getter.

    Names inside a getter are looked up in the normalizer again, but a name inside its own entry means the
    configuration's key. Raises MissingValue, which says the path, the part of it that failed and what is there.

    >>> gpt = reads(heads="n_head", head_dim=quotient("n_embd", "heads")).normalizer
    >>> look(gpt, {"n_embd": 64, "n_head": 4}, "head_dim")
    16
    """
    return _read_source({read.name: read.source for read in normalizer.reads}, config, source)


def is_set(normalizer: Normalizer, config: Snapshot, source: Source | None) -> bool:
    """Whether a condition is met: no condition always is; a place that does not exist holds nothing."""
    try:
        return source is None or bool(read_config(normalizer, config, source))
    except MissingValue:
        return False


def snapshot(config: Any) -> Snapshot:
    """A configuration as a plain dict in which every attribute name answers, the mapped ones of transformers too.

    Takes a mapping, an object with `to_dict`, or a model that keeps one of these.
    """
    if isinstance(config, Mapping):
        return config
    if hasattr(config, "to_dict"):
        return _told(config)
    held = config_of(config)
    if isinstance(held, Mapping):
        return held
    if hasattr(held, "to_dict"):
        return _told(held)
    raise InvalidSpec(
        f"a configuration is a dict, a transformers configuration or a model, not {type(config).__name__}"
    )


def config_of(model: Any) -> Any:
    """What a model keeps as its configuration: its `config`, or timm's `pretrained_cfg`; None where it keeps none."""
    held = getattr(model, "config", None)
    return getattr(model, "pretrained_cfg", None) if held is None else held


def _told(config: Any) -> Snapshot:
    told = dict(config.to_dict())
    for name in [name for name, value in told.items() if isinstance(value, Mapping) or hasattr(value, "to_dict")]:
        nested = getattr(config, name, None)
        if hasattr(nested, "to_dict"):
            told[name] = _told(nested)
    kept = getattr(config, "attribute_map", {})
    mapped = {name: told[key] for name, key in kept.items() if key in told}
    model_type = getattr(config, "model_type", None)
    return {**told, **mapped, **({"model_type": model_type} if model_type else {})}


def _read_source(reads: Mapping[str, Source], config: Snapshot, source: Source) -> Any:
    if isinstance(source, Getter):
        if source.function not in GETTERS:
            raise unknown("getter", source.function, GETTERS)
        return GETTERS[source.function](lambda inner: _read_source(reads, config, inner), *source.arguments)
    if source in reads:
        rest = {name: place for name, place in reads.items() if name != source}
        return _read_source(rest, config, reads[source])
    return _at(config, source)


def _at(config: Snapshot, path: str) -> Any:
    found: Any = config
    for index, key in enumerate(path.split(".")):
        there = found if isinstance(found, Mapping) else {}
        if there.get(key) is None:
            part = f" (part {index + 1} of {path!r})" if "." in path else ""
            known = sorted(name for name, value in there.items() if value is not None)
            raise MissingValue(f"the configuration has no {key!r}{part}; it has: {listed(known)}{closest(key, known)}")
        found = there[key]
    return found


Look = Callable[[Any], Any]


def _from_config(look: Look, source: Source) -> Any:
    return look(source)


def _either(look: Look, *sources: Source) -> Any:
    problems = []
    for source in sources:
        try:
            return look(source)
        except MissingValue as problem:
            problems.append(str(problem))
    raise MissingValue("; and ".join(problems))


def _quotient(look: Look, over: Source, under: Source) -> int:
    return int(look(over) // look(under))


def _nearest(look: Look, over: Source, under: Source) -> int:
    made: int = round(look(over) / look(under))
    return made


def _product(look: Look, *sources: Source) -> int:
    result = 1
    for source in sources:
        result *= look(source)
    return result


def _item(look: Look, source: Source, index: int) -> Any:
    listed_there = look(source)
    if not isinstance(listed_there, (list, tuple)) or not -len(listed_there) <= index < len(listed_there):
        raise MissingValue(f"{source} holds no list with an entry {index}: {listed_there!r}")
    return listed_there[index]


def _power(look: Look, base: Source, exponent: Source) -> int:
    made: int = int(look(base)) ** int(look(exponent))
    return made


def _total(look: Look, *sources: Source) -> int:
    return sum(look(source) for source in sources)


def _count(look: Look, source: Source) -> int:
    return len(look(source))


def _constant(_: Look, value: float | tuple[int, ...]) -> float | tuple[int, ...]:
    return value


def _negated(look: Look, source: Source) -> bool:
    try:
        return not look(source)
    except MissingValue:
        return True


def _equals(look: Look, source: Source, value: str | float) -> bool:
    return bool(look(source) == value)


def _at_least(look: Look, source: Source, least: float) -> bool:
    return bool(look(source) >= least)


def _if_else(look: Look, condition: Source, then: Source, otherwise: Source) -> Any:
    return look(otherwise if _negated(look, condition) else then)


def _indices_where(look: Look, source: Source, *kinds: str) -> tuple[int, ...]:
    return tuple(place for place, kind in enumerate(look(source)) if kind in kinds)


def _complement(look: Look, count: Source, listed: Source) -> tuple[int, ...]:
    taken = look(listed)
    return tuple(place for place in range(look(count)) if place not in taken)


def _every_nth(look: Look, count: Source, period: Source, offset: Source) -> tuple[int, ...]:
    length, first = int(look(period)), int(look(offset))
    return tuple(place for place in range(look(count)) if place % length == first)


def _difference(look: Look, source: Source, taken: Source) -> int:
    return int(look(source)) - int(look(taken))


def _less_than(look: Look, listed: Source, limit: Source) -> tuple[int, ...]:
    end = look(limit)
    return tuple(place for place in look(listed) if place < end)


def _first_with(look: Look, source: Source, key: str) -> Any:
    found = [entry[key] for entry in look(source).values() if key in entry]
    if not found:
        raise MissingValue(f"no entry of {source!r} has {key!r}")
    return found[0]


def _repeated(look: Look, source: Source, times: Source) -> tuple[Any, ...]:
    return tuple(look(source) for _ in range(look(times)))


def _log2(look: Look, source: Source) -> int:
    return int(look(source)).bit_length() - 1


def _maximum(look: Look, listed: Source) -> int:
    return int(max(look(listed)))


def _rounded_to_even(look: Look, listed: Source) -> tuple[int, ...]:
    return tuple(number - number % 2 for number in look(listed))


def _convolved(look: Look, length: Source, kernels: Source, strides: Source) -> str:
    made = look(length) if isinstance(length, Getter) else length
    for kernel, stride in zip(look(kernels), look(strides), strict=True):
        made = f"( {made} - {kernel} ) // {stride} + 1"
    return made


GETTERS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "from_config": _from_config,
        "either": _either,
        "quotient": _quotient,
        "nearest": _nearest,
        "item": _item,
        "power": _power,
        "product": _product,
        "total": _total,
        "count": _count,
        "constant": _constant,
        "negated": _negated,
        "equals": _equals,
        "at_least": _at_least,
        "if_else": _if_else,
        "indices_where": _indices_where,
        "complement": _complement,
        "every_nth": _every_nth,
        "difference": _difference,
        "less_than": _less_than,
        "first_with": _first_with,
        "repeated": _repeated,
        "log2": _log2,
        "rounded_to_even": _rounded_to_even,
        "maximum": _maximum,
        "convolved": _convolved,
    }
)

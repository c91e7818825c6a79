"""Values from a configuration, and formulas of them in the notation of Python: `"hidden_size // num_attention_heads"`.

Names are those of the configuration or of a normalizer. Besides the four operators of axes there are:

    a ** b                   a power
    a or b                   the first value that the configuration has
    not a                    whether the value is missing, false, 0 or empty
    a == 'text', a >= 2      comparisons with this value
    a if condition else b    one of two values; only this value is read
    sizes[0]                 an item of a list; -1 is the last
    len(sizes), max(sizes)   the length of a list, and its largest number
    log2(a)                  the logarithm to base 2 of a whole number, rounded down
    repeated(a, n)           a tuple of n times the value a
    rounded_to_even(sizes)   the whole numbers of a list, the odd ones minus one
    less_than(sizes, a)      the numbers below a in a list
    indices_where(l, 'b')    the indices of the values 'b', ... in the list l
    complement(n, indices)   the whole numbers below n that are not in indices
    every_nth(n, a, b)       the whole numbers below n with remainder b after division by a
    first_with(d, 'key')     the first key of a dict of dicts whose inner dict has 'key'
    convolved(axis, k, s)    the formula of a length after convolutions one after the other, from their kernel sizes
                             and strides; padding at both ends makes a kernel smaller
    2, 0.5, (1, 2), 'a'      numbers, a tuple of them, and a text
"""

import ast
from collections.abc import Callable, Mapping
from functools import cache, partial
from math import prod
from types import MappingProxyType
from typing import Any

from onnxfn.specs.errors import InvalidSpec, MissingValue, OnnxfnError, closest, late, listed, refuse_unknown, shortened
from onnxfn.specs.records import Getter, Normalizer, Source

OPERATORS: Mapping[type[ast.AST], str] = MappingProxyType(
    {
        ast.Add: "total",
        ast.Sub: "difference",
        ast.Mult: "product",
        ast.FloorDiv: "quotient",
        ast.Pow: "power",
        ast.Eq: "equals",
        ast.GtE: "at_least",
    }
)
FUNCTIONS: Mapping[str, str] = MappingProxyType(
    {
        "len": "count",
        "max": "maximum",
        **{name: name for name in ("log2", "repeated", "rounded_to_even", "less_than", "indices_where")},
        **{name: name for name in ("complement", "every_nth", "first_with", "convolved")},
    }
)
"""Function in a formula -> getter."""


@cache
def parsed(text: str) -> Source:
    """The getter that a formula stands for; a name or a dotted path is itself. InvalidSpec for any other text."""
    if all(part.isidentifier() for part in text.split(".")):
        return text
    try:
        if len(text) <= 500:  # noqa: PLR2004 - characters
            return _source(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, MemoryError, RecursionError, KeyError):  # KeyError: another operator or function
        pass
    raise InvalidSpec(f"{shortened(text)} is not a source: a source is a name, a dotted path or a formula of them")


def _source(node: ast.expr) -> Source:
    """The source that a part of a formula stands for. KeyError or ValueError if it stands for none."""
    arguments: tuple[Any, ...]
    match node:
        case ast.Name() | ast.Attribute():
            return ast.unparse(node)
        case ast.BinOp(left, operator, right):
            function, first = OPERATORS[type(operator)], _source(left)
            several = isinstance(first, Getter) and first.function == function and function in ("total", "product")
            arguments = (*(first.arguments if several else (first,)), _source(right))  # type: ignore[union-attr]
        case ast.BoolOp(ast.Or(), values):
            function, arguments = "either", tuple(map(_source, values))
        case ast.UnaryOp(ast.Not(), operand):
            function, arguments = "negated", (_source(operand),)
        case ast.Compare(left, [operator], [value]):
            function, arguments = OPERATORS[type(operator)], (_source(left), ast.literal_eval(value))
        case ast.IfExp(condition, then, otherwise):
            function, arguments = "if_else", tuple(map(_source, (condition, then, otherwise)))
        case ast.Subscript(items, index):
            function, arguments = "item", (_source(items), ast.literal_eval(index))
        case ast.Call(ast.Name(name), operands, []):
            function, arguments = FUNCTIONS[name], tuple(map(_source, operands))
        case _:
            function, arguments = "constant", (ast.literal_eval(node),)
    return Getter(function, arguments)


LARGEST_BITS, MOST_LAYERS = 64, 10_000
"""The bits of the largest power, and the most layers of a model: a stranger's spec may ask for more."""

Snapshot = Mapping[str, Any]
"""A configuration as a plain dict."""

UNKNOWN: Snapshot = MappingProxyType({})
"""The configuration of a plan without one: whatever is read from it is missing, also in a condition."""

Reader = Callable[[Source], Any]
"""From a source to its value in one configuration."""


def snapshot(config: Any) -> Snapshot:
    """A configuration, or that of a model, as a plain dict that also has the names of transformers' `attribute_map`."""
    for value in (config, config_of(config), _fields(config)):
        if isinstance(value, Mapping):
            return value
        if hasattr(value, "to_dict"):
            return _as_dict(value)
    raise InvalidSpec(
        f"a configuration is a dict, an object with fields, or a model with one, not {type(config).__name__}"
    )


def config_of(model: Any) -> Any:
    """The configuration of a model: its `config`, or timm's `pretrained_cfg`; None if neither can be read as a dict."""
    values = [getattr(model, name, None) for name in ("config", "pretrained_cfg")]
    known = (value for value in values if isinstance(value, Mapping) or hasattr(value, "to_dict"))
    return next(iter((*known, *filter(None, map(_fields, values)))), None)


def _fields(value: Any) -> Mapping[str, Any] | None:
    """The fields of a plain object, such as a dataclass; None of a module, and of others without any."""
    return vars(value) if hasattr(value, "__dict__") and not callable(value) else None


def read_config(normalizer: Normalizer, config: Snapshot, source: Source) -> Any:
    """The value that a configuration has for a source, by a normalizer. MissingValue without it, UnknownName."""
    if config is UNKNOWN:
        return _value_without_config(source)
    return _source_value({read.name: read.source for read in normalizer.reads}, config, source)


def value_or(normalizer: Normalizer, config: Snapshot, source: Source, default: Any) -> Any:
    """The value that a configuration has for a source; the default if it has none."""
    try:
        return read_config(normalizer, config, source)
    except MissingValue:
        return default


def is_set(normalizer: Normalizer, config: Snapshot, condition: Source | None) -> bool:
    """Whether a condition's value is true; None holds, a missing value is false. MissingValue if all is UNKNOWN."""
    read = read_config if config is UNKNOWN else partial(value_or, default=False)
    return condition is None or bool(read(normalizer, config, condition))


def _value_without_config(source: Source) -> Any:
    """The value of a constant; a MissingValue for any other source."""
    getter = parsed(source) if isinstance(source, str) else source
    if isinstance(getter, Getter) and getter.function == "from_config":
        return _value_without_config(getter.arguments[0])
    if isinstance(getter, Getter) and getter.function == "constant":
        return getter.arguments[0]
    raise MissingValue(f"{source} is in the configuration of a model, which is left out: plan(spec, config)")


def layer_indices(count: int) -> range:
    """The whole numbers from 0 up to `count`, a number of layers; InvalidSpec above `MOST_LAYERS`."""
    if count > MOST_LAYERS:
        raise InvalidSpec(f"{count} layers are more than {MOST_LAYERS}")
    return range(count)


def _as_dict(config: Any) -> Snapshot:
    """The dict of a configuration of transformers and of those inside it, with the names of their `attribute_map`."""
    values = dict(config.to_dict())
    for name in [name for name, value in values.items() if isinstance(value, Mapping) or hasattr(value, "to_dict")]:
        inner = getattr(config, name, None)
        if hasattr(inner, "to_dict"):
            values[name] = _as_dict(inner)
    mapped = {name: values[key] for name, key in getattr(config, "attribute_map", {}).items() if key in values}
    model_type = getattr(config, "model_type", None)
    return {**values, **mapped, **({"model_type": model_type} if model_type else {})}


def _source_value(sources: Mapping[str, Source], config: Snapshot, source: Source) -> Any:
    if isinstance(source, Getter):
        return _getter_value(sources, config, source)
    if not isinstance(source, str):
        raise InvalidSpec(f"{shortened(source)} is not a source: use a name, a dotted path, a formula or a getter")
    if source in sources:
        others = {name: other for name, other in sources.items() if name != source}
        return _source_value(others, config, sources[source])
    known = parsed(source)
    return _path_value(config, known) if isinstance(known, str) else _getter_value(sources, config, known)


def _getter_value(sources: Mapping[str, Source], config: Snapshot, getter: Getter) -> Any:
    refuse_unknown("getter", getter.function, GETTERS)
    try:
        return GETTERS[getter.function](lambda inner: _source_value(sources, config, inner), *getter.arguments)
    except OnnxfnError:
        raise
    except (TypeError, ValueError, ArithmeticError, AttributeError, LookupError) as problem:
        raise InvalidSpec(f"{shortened(str(getter))} cannot be computed: {problem}") from problem


def _path_value(config: Snapshot, path: str) -> Any:
    value: Any = config
    for index, key in enumerate(path.split(".")):
        keys = value if isinstance(value, Mapping) else {}
        if keys.get(key) is None:
            part = f" (part {index + 1} of {path!r})" if "." in path else ""
            known = [name for name, value in keys.items() if value is not None]
            raise MissingValue(late(_without_key, f"{key!r}{part}", key, known))
        value = keys[key]
    return value


def _without_key(what: str, key: str, known: list[str]) -> str:
    return f"the configuration has no {what}; it has: {listed(sorted(known))}{closest(key, sorted(known))}"


def _either(read: Reader, *sources: Source) -> Any:
    problems: list[MissingValue] = []
    for source in sources:
        try:
            return read(source)
        except MissingValue as problem:
            problems.append(problem)
    raise MissingValue(late(_joined, problems))


def _joined(problems: list[MissingValue]) -> str:
    return "; and ".join(map(str, problems))


def _negated(read: Reader, source: Source) -> bool:
    try:
        return not read(source)
    except MissingValue:
        return True


def _item(read: Reader, source: Source, index: int) -> Any:
    items = read(source)
    if not isinstance(items, (list, tuple)) or not -len(items) <= index < len(items):
        raise MissingValue(f"{source} is not a list that has an item {index}, but {items!r}")
    return items[index]


def _first_with(read: Reader, source: Source, key: Source) -> Any:
    name = read(key)
    values = [inner[name] for inner in read(source).values() if name in inner]
    if not values:
        raise MissingValue(f"no dict in {source!r} has the key {name!r}")
    return values[0]


def _power(read: Reader, base: Source, exponent: Source) -> int:
    number, times = int(read(base)), int(read(exponent))
    if number.bit_length() * times > LARGEST_BITS:
        raise ValueError(f"{number} to the power of {times} is too large for a size")
    return int(number**times)


def _convolved(read: Reader, length: Source, kernels: Source, strides: Source) -> str:
    formula = read(length) if isinstance(length, Getter) else length
    for kernel, stride in zip(read(kernels), read(strides), strict=True):
        formula = f"( {formula} - {kernel} ) // {stride} + 1"
    return formula


GETTERS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "from_config": lambda read, source: read(source),
        "constant": lambda _, value: value,
        "either": _either,
        # numbers
        "quotient": lambda read, dividend, divisor: int(read(dividend) // read(divisor)),
        "product": lambda read, *sources: prod(map(read, sources)),
        "total": lambda read, *sources: sum(map(read, sources)),
        "difference": lambda read, minuend, subtrahend: int(read(minuend)) - int(read(subtrahend)),
        "power": _power,
        "log2": lambda read, source: int(read(source)).bit_length() - 1,
        # conditions
        "negated": _negated,
        "equals": lambda read, source, value: bool(read(source) == value),
        "at_least": lambda read, source, least: bool(read(source) >= least),
        "if_else": lambda read, condition, then, other: read(other if _negated(read, condition) else then),
        # lists
        "count": lambda read, source: len(read(source)),
        "item": _item,
        "maximum": lambda read, numbers: int(max(read(numbers))),
        "repeated": lambda read, source, times: tuple(read(source) for _ in layer_indices(read(times))),
        "rounded_to_even": lambda read, numbers: tuple(number - number % 2 for number in read(numbers)),
        "indices_where": lambda read, source, *values: tuple(
            index for index, value in enumerate(read(source)) if value in map(read, values)
        ),
        "complement": lambda read, count, indices: tuple(
            index for index in layer_indices(read(count)) if index not in read(indices)
        ),
        "every_nth": lambda read, count, period, offset: tuple(
            index for index in layer_indices(read(count)) if index % int(read(period)) == int(read(offset))
        ),
        "less_than": lambda read, numbers, limit: tuple(number for number in read(numbers) if number < read(limit)),
        # others
        "first_with": _first_with,
        "convolved": _convolved,
    }
)
"""The code of each getter: from a reader of sources and the getter's arguments to the value."""

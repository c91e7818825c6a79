"""Getters: named ways to read a value from a configuration, or to compute it from several values.

A source is a name, a dotted path (`text_config.hidden_size`) or a getter. Each function returns a `Getter` record. The
table `GETTERS` in config_values.py has the code of each getter.
"""

from __future__ import annotations

from onnxfn.specs.records import Getter, Normalizer, Read, Source
from onnxfn.specs.spec import ExportSpec


def reads(**sources: Source) -> ExportSpec:
    """A spec that maps the names that axes and generators use to values of the configuration.

    Args:
        sources: For each name, a source: a key of the configuration, a dotted path, or a getter.

    Returns:
        An ExportSpec with a normalizer and nothing else.

    >>> from onnxfn.specs.config_values import read_config
    >>> spec = reads(num_layers="n_layer", head_dim=quotient("n_embd", "n_head"))
    >>> read_config(spec.normalizer, {"n_layer": 2, "n_embd": 64, "n_head": 4}, "head_dim")
    16
    """
    return ExportSpec(normalizer=Normalizer(tuple(Read(name, source) for name, source in sources.items())))


def from_config(source: Source) -> Getter:
    """The value of a source, where a text by itself would be taken literally.

    Args:
        source: A name, a dotted path or a getter.

    Returns:
        A Getter, for the arguments of a generator and the sizes of dummies: `generates("ids", "integers",
        high=from_config("vocab_size"))`.

    >>> from onnxfn.specs.config_values import read_config
    >>> read_config(Normalizer(), {"vocab_size": 99}, from_config("vocab_size"))
    99
    """
    return Getter("from_config", (source,))


def either(*sources: Source) -> Getter:
    """The value of the first source that the configuration has.

    Args:
        sources: Names, dotted paths or getters, in the order in which they are tried.

    Returns:
        A Getter. Reading it raises MissingValue when the configuration has none of the sources.

    >>> from onnxfn.specs.config_values import read_config
    >>> read_config(Normalizer(), {"n_head": 4}, either("num_attention_heads", "n_head"))
    4
    """
    return Getter("either", sources)


def quotient(dividend: Source, divisor: Source) -> Getter:
    """One number divided by another, rounded down.

    Args:
        dividend: Source of the number that is divided.
        divisor: Source of the number to divide by.

    Returns:
        A Getter of a whole number.

    >>> from onnxfn.specs.config_values import read_config
    >>> read_config(Normalizer(), {"hidden_size": 64, "heads": 4}, quotient("hidden_size", "heads"))
    16
    """
    return Getter("quotient", (dividend, divisor))


def nearest(dividend: Source, divisor: Source) -> Getter:
    """One number divided by another, rounded to the nearest whole number (to the even one of two)."""
    return Getter("nearest", (dividend, divisor))


def product(*sources: Source) -> Getter:
    """The product of numbers.

    Args:
        sources: Sources of the factors; none give 1.

    Returns:
        A Getter of a number.

    >>> from onnxfn.specs.config_values import read_config
    >>> read_config(Normalizer(), {"heads": 4}, product("heads", constant(16)))
    64
    """
    return Getter("product", sources)


def total(*sources: Source) -> Getter:
    """The sum of numbers.

    Args:
        sources: Sources of the summands; none give 0.

    Returns:
        A Getter of a number.

    >>> from onnxfn.specs.config_values import read_config
    >>> read_config(Normalizer(), {"num_patches": 49}, total("num_patches", constant(1)))
    50
    """
    return Getter("total", sources)


def difference(minuend: Source, subtrahend: Source) -> Getter:
    """One number minus another.

    Args:
        minuend: Source of the number to subtract from.
        subtrahend: Source of the number that is subtracted.

    Returns:
        A Getter of a whole number.

    >>> from onnxfn.specs.config_values import read_config
    >>> read_config(Normalizer(), {"num_layers": 6}, difference("num_layers", constant(1)))
    5
    """
    return Getter("difference", (minuend, subtrahend))


def power(base: Source, exponent: Source) -> Getter:
    """One number to the power of another.

    Args:
        base: Source of a whole number.
        exponent: Source of a whole number.

    Returns:
        A Getter of a whole number.

    >>> from onnxfn.specs.config_values import read_config
    >>> read_config(Normalizer(), {"patches_per_side": 7}, power("patches_per_side", constant(2)))
    49
    """
    return Getter("power", (base, exponent))


def count(source: Source) -> Getter:
    """The length of a list.

    Args:
        source: Source of a list, or of anything that has a length.

    Returns:
        A Getter of a whole number.

    >>> from onnxfn.specs.config_values import read_config
    >>> read_config(Normalizer(), {"depths": [2, 2, 6]}, count("depths"))
    3
    """
    return Getter("count", (source,))


def item(source: Source, index: int) -> Getter:
    """One item of a list.

    Args:
        source: Source of a list.
        index: Which item, from 0; -1 is the last.

    Returns:
        A Getter. Reading it raises MissingValue when the source is no list or has no such item, so that
        `either(item("image_size", 0), "image_size")` reads a pair as well as a number.

    >>> from onnxfn.specs.config_values import read_config
    >>> read_config(Normalizer(), {"image_size": [32, 64]}, item("image_size", 1))
    64
    """
    return Getter("item", (source, index))


def constant(value: float | tuple[int, ...]) -> Getter:
    """A value that does not depend on the configuration.

    Args:
        value: A number, or a tuple of whole numbers.

    Returns:
        A Getter, where a source is expected: a number is no source.

    >>> from onnxfn.specs.config_values import read_config
    >>> read_config(Normalizer(), {}, either("head_dim", constant(64)))
    64
    """
    return Getter("constant", (value,))


def at_least(source: Source, least: float) -> Getter:
    """Whether a number is at least `least`.

    Args:
        source: Source of a number.
        least: The smallest number for which the condition holds.

    Returns:
        A Getter of a bool, for the `when` of an input or an output.

    >>> from onnxfn.specs.config_values import read_config
    >>> read_config(Normalizer(), {"num_labels": 2}, at_least("num_labels", 1))
    True
    """
    return Getter("at_least", (source, least))


def negated(source: Source) -> Getter:
    """Whether the configuration has no such value, or one that is false, 0 or empty.

    Args:
        source: Source of any value.

    Returns:
        A Getter of a bool, for the `when` of an input or an output.

    >>> from onnxfn.specs.config_values import read_config
    >>> read_config(Normalizer(), {"type_vocab_size": 0}, negated("type_vocab_size"))
    True
    """
    return Getter("negated", (source,))


def equals(source: Source, value: str | float) -> Getter:
    """Whether the configuration has exactly this value.

    Args:
        source: Source of any value.
        value: The value to compare with; it is taken literally.

    Returns:
        A Getter of a bool, for the `when` of an input or an output.

    >>> from onnxfn.specs.config_values import read_config
    >>> read_config(Normalizer(), {"position_embedding_type": "rope"}, equals("position_embedding_type", "rope"))
    True
    """
    return Getter("equals", (source, value))


def if_else(condition: Source, then: Source, otherwise: Source) -> Getter:
    """One of two sources, chosen by a third.

    Args:
        condition: Source of the value that decides. A value that the configuration lacks counts as false.
        then: The source to read when the condition is true.
        otherwise: The source to read when it is false.

    Returns:
        A Getter. Only the chosen source is read.

    >>> from onnxfn.specs.config_values import read_config
    >>> read_config(Normalizer(), {"use_cls_token": True}, if_else("use_cls_token", constant(1), constant(0)))
    1
    """
    return Getter("if_else", (condition, then, otherwise))


def indices_where(source: Source, *values: str) -> Getter:
    """The indices of a list at which it has one of these values: `indices_where("layer_types", "conv")`."""
    return Getter("indices_where", (source, *values))


def complement(count: Source, indices: Source) -> Getter:
    """The whole numbers from 0 up to `count` that are not among `indices`."""
    return Getter("complement", (count, indices))


def every_nth(count: Source, period: Source, offset: Source) -> Getter:
    """The whole numbers from 0 up to `count` that leave the remainder `offset` when divided by `period`."""
    return Getter("every_nth", (count, period, offset))


def less_than(numbers: Source, limit: Source) -> Getter:
    """The numbers of a list that are less than `limit`."""
    return Getter("less_than", (numbers, limit))


def maximum(numbers: Source) -> Getter:
    """The largest number of a list."""
    return Getter("maximum", (numbers,))


def least(*sources: Source) -> Getter:
    """The smallest of those sources that the configuration has as a positive number."""
    return Getter("least", sources)


def rounded_to_even(numbers: Source) -> Getter:
    """The whole numbers of a list, the odd ones minus one."""
    return Getter("rounded_to_even", (numbers,))


def log2(source: Source) -> Getter:
    """The logarithm to base 2 of a whole number, rounded down."""
    return Getter("log2", (source,))


def repeated(source: Source, times: Source) -> Getter:
    """A tuple that holds one value `times` times."""
    return Getter("repeated", (source, times))


def first_with(source: Source, key: str) -> Getter:
    """`source` is a dict of dicts: `key` of the first inner dict that has it."""
    return Getter("first_with", (source, key))


def convolved(length: Source, kernels: Source, strides: Source) -> Getter:
    """The formula of a length after convolutions one after the other, from their kernel sizes and strides.

    `length` is the symbol of an axis, or a getter of such a formula. Padding at both ends makes a kernel smaller.
    """
    return Getter("convolved", (length, kernels, strides))

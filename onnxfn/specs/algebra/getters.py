"""Getters: named ways to read a value from a configuration, or to compute it from several values.

A source is a name, a dotted path (`text_config.hidden_size`), a formula (`hidden_size // num_attention_heads`, see
source_formulas.py) or a getter, for what formulas cannot say. Each function returns a `Getter` record. The table
`GETTERS` in config_values.py has the code of each getter.
"""

from __future__ import annotations

from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.records import Getter, Normalizer, Read, Source


def reads(**sources: Source) -> ExportSpec:
    """A spec that maps the names that axes and generators use to values of the configuration.

    Args:
        sources: For each name, a source: a key of the configuration, a dotted path, a formula, or a getter.

    Returns:
        An ExportSpec with a normalizer and nothing else.

    >>> from onnxfn.specs.algebra.config_values import read_config
    >>> spec = reads(num_layers="n_layer", head_dim="n_embd // n_head")
    >>> read_config(spec.normalizer, {"n_layer": 2, "n_embd": 64, "n_head": 4}, "head_dim")
    16
    """
    return ExportSpec(normalizer=Normalizer(tuple(Read(name, source) for name, source in sources.items())))


def from_config(source: Source) -> Getter:
    """The value of a source, where a text by itself would be taken literally.

    Args:
        source: A name, a dotted path, a formula or a getter.

    Returns:
        A Getter, for the arguments of a generator and the sizes of dummies: `generates("ids", "integers",
        high=from_config("vocab_size"))`.

    >>> from onnxfn.specs.algebra.config_values import read_config
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

    >>> from onnxfn.specs.algebra.config_values import read_config
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

    >>> from onnxfn.specs.algebra.config_values import read_config
    >>> read_config(Normalizer(), {"hidden_size": 64, "heads": 4}, quotient("hidden_size", "heads"))
    16
    """
    return Getter("quotient", (dividend, divisor))


def nearest(dividend: Source, divisor: Source) -> Getter:
    """One number divided by another, rounded to the nearest whole number (to the even one of two)."""
    return Getter("nearest", (dividend, divisor))


def constant(value: float | tuple[int, ...]) -> Getter:
    """A value that does not depend on the configuration.

    Args:
        value: A number, or a tuple of whole numbers.

    Returns:
        A Getter, where a source is expected: a number is no source.

    >>> from onnxfn.specs.algebra.config_values import read_config
    >>> read_config(Normalizer(), {}, either("head_dim", constant(64)))
    64
    """
    return Getter("constant", (value,))


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

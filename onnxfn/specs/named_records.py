"""Records in order that are also found by name: `spec.inputs[0]`, `spec.inputs["input_ids"]`.

Each class holds a tuple, and compares, hashes and prints as that tuple. The classes differ in the type of their records
alone, which type checkers read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, overload

from attrs import field, frozen

from onnxfn.specs.converters import as_tuple, is_no_collection, no_collection
from onnxfn.specs.errors import InvalidSpec, unknown
from onnxfn.specs.field_types import typed_fields
from onnxfn.specs.records import Generator, InputSpec, OutputSpec


def record_at(records: tuple[Any, ...], key: Any, kind: str) -> Any:
    """The record at a position or of a name; for a slice, a tuple of records.

    Raises:
        UnknownName: no record has the name or the position. The message calls a record `kind`.
        InvalidSpec: the key is neither a position nor a name.
    """
    if isinstance(key, slice):
        return records[key]
    names = [record.name for record in records]
    if isinstance(key, str):
        if key not in names:
            raise unknown(kind, key, names)
        return records[names.index(key)]
    if not hasattr(key, "__index__"):
        article = "an" if kind[0] in "aeiou" else "a"
        raise InvalidSpec(
            f"the key of {article} {kind} is its name or its position, not of the type {type(key).__name__}"
        )
    if not -len(records) <= key < len(records):
        raise unknown(kind, str(key), names)
    return records[key]


def _length(self: Any) -> int:
    return len(self.records)


def _has(self: Any, key: object) -> bool:
    """Whether a record has this name, or is equal to this record."""
    return any(record.name == key for record in self.records) if isinstance(key, str) else key in self.records


def _equals(self: Any, other: object) -> bool:
    return bool(self.records == getattr(other, "records", other))


def _hash(self: Any) -> int:
    return hash(self.records)


def _text(self: Any) -> str:
    return repr(self.records)


@frozen(eq=False, repr=False, field_transformer=typed_fields)
class Inputs:
    """The inputs of a spec.

    Attributes:
        records: The inputs, in order.

    >>> from onnxfn.specs.records import InputSpec
    >>> inputs = Inputs([InputSpec("ids", "n", "token_ids")])
    >>> inputs["ids"] == inputs[0], "ids" in inputs, len(inputs)
    (True, True, 1)
    """

    records: tuple[InputSpec, ...] = field(default=(), converter=as_tuple)

    @overload
    def __getitem__(self, key: int | str) -> InputSpec: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[InputSpec, ...]: ...
    def __getitem__(self, key: int | str | slice) -> Any:
        return record_at(self.records, key, "input")

    def __iter__(self) -> Iterator[InputSpec]:
        return iter(self.records)

    __len__ = _length
    __contains__ = _has
    __eq__ = _equals
    __hash__ = _hash
    __repr__ = _text


@frozen(eq=False, repr=False, field_transformer=typed_fields)
class Outputs:
    """The outputs of a spec.

    Attributes:
        records: The outputs, in order.

    >>> from onnxfn.specs.records import OutputSpec
    >>> outputs = Outputs([OutputSpec("logits", "n 2")])
    >>> outputs["logits"] == outputs[0], "logits" in outputs, len(outputs)
    (True, True, 1)
    """

    records: tuple[OutputSpec, ...] = field(default=(), converter=as_tuple)

    @overload
    def __getitem__(self, key: int | str) -> OutputSpec: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[OutputSpec, ...]: ...
    def __getitem__(self, key: int | str | slice) -> Any:
        return record_at(self.records, key, "output")

    def __iter__(self) -> Iterator[OutputSpec]:
        return iter(self.records)

    __len__ = _length
    __contains__ = _has
    __eq__ = _equals
    __hash__ = _hash
    __repr__ = _text


@frozen(eq=False, repr=False, field_transformer=typed_fields)
class Generators:
    """The generators of a spec.

    Attributes:
        records: The generators, in order.

    >>> from onnxfn.specs.records import Generator
    >>> generators = Generators([Generator("ids", "integers")])
    >>> generators["ids"] == generators[0], "ids" in generators, len(generators)
    (True, True, 1)
    """

    records: tuple[Generator, ...] = field(default=(), converter=as_tuple)

    @overload
    def __getitem__(self, key: int | str) -> Generator: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[Generator, ...]: ...
    def __getitem__(self, key: int | str | slice) -> Any:
        return record_at(self.records, key, "generator")

    def __iter__(self) -> Iterator[Generator]:
        return iter(self.records)

    __len__ = _length
    __contains__ = _has
    __eq__ = _equals
    __hash__ = _hash
    __repr__ = _text


def as_inputs(records: Iterable[InputSpec]) -> Inputs:
    """The inputs of a field, from any iterable of them."""
    if is_no_collection(records):
        raise no_collection(records)
    return records if isinstance(records, Inputs) else Inputs(records)


def as_outputs(records: Iterable[OutputSpec]) -> Outputs:
    """The outputs of a field, from any iterable of them."""
    if is_no_collection(records):
        raise no_collection(records)
    return records if isinstance(records, Outputs) else Outputs(records)


def as_generators(records: Iterable[Generator]) -> Generators:
    """The generators of a field, from any iterable of them."""
    if is_no_collection(records):
        raise no_collection(records)
    return records if isinstance(records, Generators) else Generators(records)


NAMED = (Inputs, Outputs, Generators)
"""The classes of this file."""

"""Records in order that are also found by name: `spec.inputs[0]`, `spec.inputs["input_ids"]`. Types: the `.pyi`."""

from collections.abc import Iterable, Iterator
from types import GenericAlias
from typing import Any

from attrs import field, frozen

from onnxfn.specs.converters import as_tuple
from onnxfn.specs.errors import InvalidSpec, refuse_unknown, shortened, unknown
from onnxfn.specs.short_repr import LONGEST_REPR, grouped_rows, shortened_call


@frozen(eq=False, repr=False)
class Named:
    """A tuple of records, which are also found by name. It compares and hashes as the tuple.

    It also prints as the tuple, if that is short; else as the names.

    Attributes:
        records: The records, in order.
        word: What a record is called in messages.
    """

    records: tuple[Any, ...] = field(default=(), converter=as_tuple)
    word: str = "record"

    __class_getitem__ = classmethod(GenericAlias)

    def __getitem__(self, key: Any) -> Any:
        """The record at a position or of a name; for a slice, a tuple of records. UnknownName if there is none."""
        if isinstance(key, slice):
            return self.records[key]
        names = [record.name for record in self.records]
        if isinstance(key, str):
            refuse_unknown(self.word, key, names)
            return self.records[names.index(key)]
        if not hasattr(key, "__index__"):
            raise InvalidSpec(f"no {self.word} {shortened(key)}: a key is a name or a position")
        if not -len(names) <= key < len(names):
            raise unknown(self.word, str(key), names)
        return self.records[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def __contains__(self, key: object) -> bool:
        """Whether a record has this name, or is equal to this record."""
        return any(record.name == key for record in self.records) if isinstance(key, str) else key in self.records

    def __eq__(self, other: object) -> bool:
        return bool(self.records == getattr(other, "records", other))

    def __hash__(self) -> int:
        return hash(self.records)

    def __repr__(self) -> str:
        full = repr(self.records)
        if len(full) <= LONGEST_REPR:
            return full
        names = grouped_rows([(record.name,) for record in self.records])
        return shortened_call(type(self).__name__, [name for (name,) in names])


def by_name(records: Iterable[Any], word: str = "record") -> Named:
    """The records of a field, from any iterable of them; the field gives them its word: see `typed_fields`."""
    return records if isinstance(records, Named) else Named(records, word)

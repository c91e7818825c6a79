"""The records of a comparison of two specs."""

from __future__ import annotations

from attrs import field

from onnxfn.specs.converters import as_tuple
from onnxfn.specs.record import record
from onnxfn.specs.results import printing


@record
class Change:
    """A difference between two records.

    Attributes:
        path: Where it is: `inputs.input_ids.axes`; `inputs (name)` for a tensor that has another name alone, `inputs
            (order)` for another order.
        before: The first record's value, as a text; None if it has none there.
        after: The second record's value, as a text; None if it has none there.
    """

    path: str
    before: str | None
    after: str | None


@record
class Changes:
    """What differs between two records: see `diff`.

    Attributes:
        added: What only the second record has.
        removed: What only the first record has.
        changed: What both have, with different values.
    """

    added: tuple[Change, ...] = field(default=(), converter=as_tuple)
    removed: tuple[Change, ...] = field(default=(), converter=as_tuple)
    changed: tuple[Change, ...] = field(default=(), converter=as_tuple)

    def __str__(self) -> str:
        return printing.text(_title(self), _sections(self))


def _title(changes: Changes) -> str:
    """The number of changes."""
    count = len(changes.added) + len(changes.removed) + len(changes.changed)
    return "no changes" if not count else f"{count} change{'s' if count > 1 else ''}"


def _sections(changes: Changes) -> printing.Sections:
    """The changes, by kind; kinds without a change are left out."""
    kinds = (
        ("added", [(change.path, str(change.after)) for change in changes.added]),
        ("removed", [(change.path, str(change.before)) for change in changes.removed]),
        ("changed", [(change.path, f"{change.before} -> {change.after}") for change in changes.changed]),
    )
    return [(kind, rows) for kind, rows in kinds if rows]

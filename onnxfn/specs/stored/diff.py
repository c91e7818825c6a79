"""`diff`: what was added, removed and changed between two specs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from attrs import evolve, field, fields, has

from onnxfn.specs.axes import AxisMap
from onnxfn.specs.converters import as_tuple
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.named_records import Named
from onnxfn.specs.record import record
from onnxfn.specs.records import Getter
from onnxfn.specs.results import printing
from onnxfn.specs.short_repr import counted, specified


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
    """The differences between two records: see `diff`.

    Attributes:
        added: What only the second record has.
        removed: What only the first record has.
        changed: What both have, with different values.
    """

    added: tuple[Change, ...] = field(default=(), converter=as_tuple)
    removed: tuple[Change, ...] = field(default=(), converter=as_tuple)
    changed: tuple[Change, ...] = field(default=(), converter=as_tuple)

    def __len__(self) -> int:
        return len(self.added) + len(self.removed) + len(self.changed)

    def __str__(self) -> str:
        count = len(self)
        sections = [
            ("added", [(change.path, str(change.after)) for change in self.added]),
            ("removed", [(change.path, str(change.before)) for change in self.removed]),
            ("changed", [(change.path, f"{change.before} -> {change.after}") for change in self.changed]),
        ]
        return printing.text(counted(count, "changes") if count else "no changes", sections)


def diff(before: Any, after: Any) -> Changes:
    """The differences between two records: two specs, two plans, two reports.

    Args:
        before: A spec or another record.
        after: A record of the same type.

    Returns:
        The changes, which print as a table. Tensors and other records with a name are compared by name. A tensor with
        only a new name is one change. A change in several tasks is one more change, with all their names.

    Raises:
        InvalidSpec: the two are not records of the same type.

    >>> from onnxfn import bert_inputs, with_opset, without
    >>> print(diff(bert_inputs, with_opset(without(bert_inputs, "token_type_ids"), 20)))
    2 changes
      added
        target.opset  20
      removed
        inputs.token_type_ids  axes=[batch_size, sequence_length], generator=segment_ids
    """
    if not has(type(before)) or type(before) is not type(after):
        raise InvalidSpec(
            f"diff compares two records of the same type, not {type(before).__name__} and {type(after).__name__}"
        )
    every = _once_for_tasks(tuple(_changes("", before, after)))
    return Changes(
        added=tuple(change for change in every if change.before is None),
        removed=tuple(change for change in every if change.after is None),
        changed=tuple(change for change in every if None not in (change.before, change.after)),
    )


def _changes(path: str, before: Any, after: Any) -> Iterator[Change]:
    if before == after:
        return
    if _is_compared_by_field(before) and type(before) is type(after):
        for attribute in fields(type(before)):
            inner = f"{path}.{attribute.name}".lstrip(".")
            yield from _changes(inner, getattr(before, attribute.name), getattr(after, attribute.name))
    elif _is_named(before) and _is_named(after):
        yield from _changes_by_name(path, before, after)
    else:
        yield Change(path, _written(before), _written(after))


def _changes_by_name(path: str, before: Collection[Any], after: Collection[Any]) -> Iterator[Change]:
    """The changes between two collections of records with names, and the new order of those that both have."""
    old, new = ({record.name: record for record in records} for records in (before, after))
    new_names = _new_names(old, new)
    for pair in new_names.items():
        yield Change(f"{path} (name)", *pair)
    for name in [name for name in {**old, **new} if name not in {*new_names, *new_names.values()}]:
        yield from _changes(f"{path}.{name}", old.get(name), new.get(name))
    orders = [[name for name in names if name in others] for names, others in ((old, new), (new, old))]
    if orders[0] != orders[1]:
        yield Change(f"{path} (order)", *(", ".join(names) for names in orders))


def _new_names(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, str]:
    """From an old name to a new name: the tensors that differ only in the name."""
    removed, added = (
        {
            record.forward_path: record
            for name, record in records.items()
            if name not in others and hasattr(record, "forward_path")
        }
        for records, others in ((old, new), (new, old))
    )
    return {
        tensor.name: added[path].name
        for path, tensor in removed.items()
        if path in added and evolve(added[path], name=tensor.name, path=tensor.path) == tensor
    }


def _once_for_tasks(changes: tuple[Change, ...]) -> tuple[Change, ...]:
    """The changes; one that several tasks share is one change, where the first of them is."""
    tasks = dict[Change, list[str]]()
    for change in changes:
        first, _, inner = change.path.partition(".")
        name, dot, rest = inner.partition(".")
        is_of_task = first == "tasks" and dot  # `tasks.ner.spec.outputs` is `.spec.outputs` of `ner`
        key = evolve(change, path=f".{rest}" if is_of_task else change.path)
        tasks.setdefault(key, []).append(name if is_of_task else "")
    several = {key: f"{{{', '.join(sorted(names))}}}" if len(names) > 1 else names[0] for key, names in tasks.items()}
    starts = {change: f"tasks.{names}" if names else "" for change, names in several.items()}
    return tuple(evolve(change, path=f"{starts[change]}{change.path}") for change in tasks)


def _is_compared_by_field(value: Any) -> bool:
    """Whether a value is a record whose fields are compared one by one. Axes and getters are values of their own."""
    return has(type(value)) and not isinstance(value, (AxisMap, Getter, Named))


def _is_named(value: Any) -> bool:
    """Whether a value is a collection of records that have names."""
    return isinstance(value, (tuple, Named)) and all(hasattr(record, "name") for record in value)


def _written(value: Any) -> str | None:
    """A value as a text: a record by the fields that it specifies, without its name. None for an empty value."""
    if value is None or value == ():
        return None
    if isinstance(value, (tuple, Named)):
        return ", ".join(str(_written(item)) for item in value)
    if not _is_compared_by_field(value):
        return str(value)
    written = ((name, inner) for name, inner in specified(value) if name != "name" and inner not in (None, ()))
    return ", ".join(f"{name}={_written(inner)}" for name, inner in written)

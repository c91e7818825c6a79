"""Records <-> plain data: what JSON and a file can hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from attrs import NOTHING, fields, has

from onnxfn.specs import axes, planned, records, reports, spec
from onnxfn.specs.errors import InvalidSpec, unknown

RECORDS: Mapping[str, type] = MappingProxyType(
    {
        known.__name__: known
        for known in (record for module in (axes, records, spec, planned, reports) for record in vars(module).values())
        if isinstance(known, type) and has(known)
    }
)


def to_plain(record: Any) -> Any:
    """A record as dicts, lists, text and numbers; fields that say nothing are left out.

    >>> to_plain(records.DummySize("batch_size", 2))
    {'record': 'DummySize', 'name': 'batch_size', 'value': 2}
    """
    if isinstance(record, axes.AxisMap):
        return {"record": "AxisMap", "pattern": axes.pattern(record)}
    if has(type(record)):
        values = {part.name: getattr(record, part.name) for part in fields(type(record)) if _is_specified(record, part)}
        return {"record": type(record).__name__, **{name: to_plain(value) for name, value in values.items()}}
    if isinstance(record, (tuple, list)):
        return [to_plain(one) for one in record]
    return record


def _is_specified(record: Any, attribute: Any) -> bool:
    """Whether a field says something: it has no default, or its value is not None, empty, or an empty record."""
    value = getattr(record, attribute.name)
    is_empty = value in (None, ()) or (has(type(value)) and value == attribute.default)
    return attribute.default is NOTHING or not is_empty


def from_plain(data: Any) -> Any:
    """The record that plain data describes; `from_plain(to_plain(r)) == r`. UnknownName for a record that is none."""
    if isinstance(data, Mapping):
        told = {key: from_plain(value) for key, value in data.items() if key != "record"}
        name = str(data.get("record"))
        if name not in RECORDS:
            raise unknown("record", name, RECORDS)
        if name == "AxisMap":
            return axes.axis_map(str(told.get("pattern", "")))
        try:
            return RECORDS[name](**told)
        except TypeError as problem:
            raise InvalidSpec(f"no {name} is described by {sorted(told)}: {problem}") from None
    if isinstance(data, list):
        return tuple(from_plain(one) for one in data)
    return data


def to_json(record: Any, *, indent: int | None = 2) -> str:
    """A record as JSON text."""
    return json.dumps(to_plain(record), indent=indent)


def from_json(text: str) -> Any:
    """The record that JSON text describes; `from_json(to_json(r)) == r`. InvalidSpec when it is no JSON."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as problem:
        raise InvalidSpec(f"not JSON: {problem}") from None
    return from_plain(data)

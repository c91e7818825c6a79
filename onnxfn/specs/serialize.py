"""Records to JSON and back."""

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
        record.__name__: record
        for module in (axes, records, spec, planned, reports)
        for record in vars(module).values()
        if isinstance(record, type) and has(record)
    }
)
"""All records, by the names that saved specs hold."""


def to_plain(record: Any) -> Any:
    """A record as dicts, lists, text and numbers. Fields that have their neutral value are left out.

    >>> to_plain(records.DummySize("batch_size", 2))
    {'record': 'DummySize', 'name': 'batch_size', 'value': 2}
    """
    if isinstance(record, axes.AxisMap):
        return {"record": "AxisMap", "pattern": axes.pattern(record)}
    if has(type(record)):
        names = [field.name for field in fields(type(record)) if _is_specified(record, field)]
        return {"record": type(record).__name__, **{name: to_plain(getattr(record, name)) for name in names}}
    if isinstance(record, (tuple, list)):
        return [to_plain(item) for item in record]
    return record


def _is_specified(record: Any, field: Any) -> bool:
    """Whether a field has no default, or a value that is not None, empty, or an empty record."""
    value = getattr(record, field.name)
    is_empty = value in (None, ()) or (has(type(value)) and value == field.default)
    return field.default is NOTHING or not is_empty


def from_plain(data: Any) -> Any:
    """The record that plain data describes; `from_plain(to_plain(record)) == record`.

    Raises:
        UnknownName: `record` is not the name of a record of onnxfn.
        InvalidSpec: The record has no such fields, or their values contradict each other.
    """
    if isinstance(data, Mapping):
        values = {key: from_plain(value) for key, value in data.items() if key != "record"}
        name = str(data.get("record"))
        if name not in RECORDS:
            raise unknown("record", name, RECORDS)
        if name == "AxisMap":
            return axes.axis_map(str(values.get("pattern", "")))
        try:
            return RECORDS[name](**values)
        except TypeError as problem:
            raise InvalidSpec(f"{name} cannot be built from the fields {sorted(values)}: {problem}") from problem
    if isinstance(data, list):
        return tuple(from_plain(item) for item in data)
    return data


def to_json(record: Any, *, indent: int | None = 2) -> str:
    """A record as JSON text.

    Args:
        record: A spec, a plan, a report or any other record of onnxfn, or a tuple of them.
        indent: Spaces for each level; None writes one line.

    Returns:
        The JSON text; `from_json(to_json(record)) == record`.

    >>> from onnxfn.specs.facts import takes
    >>> bert = takes("input_ids", "batch_size sequence_length", "token_ids")
    >>> from_json(to_json(bert)) == bert
    True
    """
    return json.dumps(to_plain(record), indent=indent)


def from_json(text: str) -> Any:
    """The record that a JSON text describes.

    Args:
        text: What `to_json` returned.

    Returns:
        The record, or a tuple of records.

    Raises:
        InvalidSpec: The text is not JSON, or a record has no such fields.
        UnknownName: The text names a record that onnxfn does not have.

    >>> print(from_json('{"record": "AxisMap", "pattern": "batch_size 3"}'))
    [batch_size, 3]
    """
    try:
        data = json.loads(text)
    except json.JSONDecodeError as problem:
        raise InvalidSpec(f"not JSON: {problem}") from problem
    return from_plain(data)

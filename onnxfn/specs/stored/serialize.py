"""Records to JSON and back; a SHA-256 of what a record means."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Any, TypeVar, overload

from attrs import NOTHING, fields, fields_dict, has

from onnxfn.specs import axes, quantization, records
from onnxfn.specs.algebra import planned, quantized_dtypes, spec
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.converters import as_tuple
from onnxfn.specs.errors import InvalidSpec, listed, refuse_unknown, shortened, unknown
from onnxfn.specs.named_records import Named
from onnxfn.specs.results import measurements
from onnxfn.specs.stored import diff, reports
from onnxfn.specs.stored.trust import check_trust
from onnxfn.specs.version import VERSION

Record = TypeVar("Record")

RECORDS: Mapping[str, type] = MappingProxyType(
    {
        record.__name__: record
        for module in (axes, records, quantization, quantized_dtypes, spec, planned, measurements, reports, diff)
        for record in vars(module).values()
        if isinstance(record, type) and has(record) and record.__name__ != "Named"
    }
)
"""All records, by the names that saved specs hold."""

SCHEMA = 13
"""The number of the form that records have in JSON. It grows when a record or a field comes, goes or changes.

A text without a number is read as of this form. Fields that it lacks have their defaults.
"""

HEADER = ("schema", "onnxfn")
"""The keys that `to_json` adds to a record: the number of the form, and the version of the writer."""

UNORDERED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "Call": ("constants", "builders", "patches"),
        "Case": ("axes",),
        "Dummies": ("generators",),
        "ExportSpec": ("axes",),
        "Normalizer": ("reads",),
        "Parts": ("links",),
        "PlannedSpec": ("axes", "links", "feedback"),
    }
)
"""The fields of records whose order has no meaning. Inputs, outputs, tasks, cases and files have an order."""

TENSORS = ("InputSpec", "OutputSpec")
"""Records whose path is their name when it is not specified."""

DEEPEST = 64
"""The largest depth of nested plain data. The specs of the tables are at most 22 deep."""


def to_plain(record: Any) -> Any:
    """A record as dicts, lists, text and numbers, without neutral values. InvalidSpec for text that UTF-8 lacks."""
    if isinstance(record, axes.AxisMap):
        return {"record": "AxisMap", "pattern": axes.pattern(record)}
    if isinstance(record, (tuple, list, Named)):
        return [to_plain(item) for item in record]
    if has(type(record)):
        names = [field.name for field in fields(type(record)) if _is_specified(record, field)]
        return {"record": type(record).__name__, **{name: to_plain(getattr(record, name)) for name in names}}
    return _text(record) if isinstance(record, str) else record


def _is_specified(record: Any, field: Any) -> bool:
    """Whether a field is part of the value, and has no default or a value besides None, () and an empty record."""
    if not field.eq:
        return False
    value = getattr(record, field.name)
    return field.default is NOTHING or not (value in (None, ()) or (has(type(value)) and value == field.default))


def from_plain(data: Any, *, trust: Iterable[str] = (), depth: int = 0) -> Any:
    """The record, tuple or value that plain data describes; `from_plain(to_plain(record)) == record`.

    It imports and runs nothing. `depth`: that of the data in a text. Raises what `from_json` does.
    """
    if depth > DEEPEST:
        raise InvalidSpec(f"the records are nested more than {DEEPEST} deep")
    if isinstance(data, Mapping):
        fields_of = {_text(key): from_plain(value, trust=trust, depth=depth + 1) for key, value in data.items()}
        return _record(str(fields_of.pop("record", None)), fields_of, as_tuple(trust))
    if isinstance(data, list):
        return tuple(from_plain(item, trust=trust, depth=depth + 1) for item in data)
    return _text(data) if isinstance(data, str) else data


def _record(name: str, values: Mapping[str, Any], trust: tuple[str, ...]) -> Any:
    """The record of this name with these values."""
    refuse_unknown("record", name, RECORDS)
    if name == "AxisMap":
        if list(values) != ["pattern"] or not isinstance(values["pattern"], str):
            raise InvalidSpec(f"AxisMap has the field 'pattern', a text, and no other, not {shortened(dict(values))}")
        return axes.axis_map(values["pattern"])
    record = RECORDS[name]
    check_trust(name, values, trust)
    if strange := sorted(values.keys() - fields_dict(record)):
        raise InvalidSpec(str(unknown("field", strange[0], fields_dict(record), of=name)))
    try:
        return record(**values)
    except TypeError as problem:
        raise InvalidSpec(f"{name} cannot be built from the fields {sorted(values)}: {problem}") from problem


def _text(value: Any) -> str:
    """A text, unchanged; InvalidSpec for another value, and for characters that UTF-8 or ONNX cannot hold."""
    if not isinstance(value, str) or re.search("[\0\ud800-\udfff]", value):
        raise InvalidSpec(f"{shortened(value)} is not a text that can be written as UTF-8 without null characters")
    return value


def to_json(record: Any, *, indent: int | None = 2) -> str:
    """A record as JSON text.

    Args:
        record: A spec, a plan, a report or another record of what is exported or was found, or a tuple of them.
        indent: Spaces for each level; None writes one line.

    Returns:
        The JSON text, which `from_json` reads, with `record=` for a record other than a spec.

    Raises:
        InvalidSpec: `record` is not a record, or one that `from_json` does not read, such as options of an export. Or
            a text in it has a null character or half of a surrogate pair.

    >>> from onnxfn.specs.algebra.facts import takes
    >>> bert = takes("input_ids", "batch_size sequence_length", "token_ids")
    >>> from_json(to_json(bert)) == bert
    True
    """
    for each in record if isinstance(record, (tuple, list, Named)) else (record,):
        if RECORDS.get(type(each).__name__) is not type(each):
            raise InvalidSpec(f"{type(each).__name__} has no form in JSON; these records have one: {listed(RECORDS)}")
    try:
        return json.dumps(_with_header(to_plain(record)), indent=indent)
    except (TypeError, ValueError) as problem:
        raise InvalidSpec(f"{type(record).__name__} is not a record, or holds other values: {problem}") from None


def _with_header(data: Any) -> Any:
    """Plain data with the number of its form and the version of onnxfn at each outer record."""
    if isinstance(data, list):
        return [_with_header(item) for item in data]
    return {**dict(zip(HEADER, (SCHEMA, VERSION), strict=True)), **data} if isinstance(data, dict) else data


def _without_header(data: Any) -> Any:
    """Plain data as `to_plain` returns it; InvalidSpec if a newer onnxfn wrote it."""
    if isinstance(data, list):
        return [_without_header(item) for item in data]
    if not isinstance(data, dict):
        return data
    schema, version = data.get("schema", SCHEMA), data.get("onnxfn", "")
    if type(schema) is not int or schema < 1:
        raise InvalidSpec(f"schema {shortened(schema)} is not a positive number; this onnxfn writes {SCHEMA}")
    if schema > SCHEMA:
        raise InvalidSpec(
            f"the JSON has schema {schema} of a newer onnxfn {shortened(version)}; onnxfn {VERSION} reads schemas up "
            f"to {SCHEMA}: install the newer one"
        )
    return {key: value for key, value in data.items() if key not in HEADER}


@overload
def from_json(text: str, *, trust: Iterable[str] = ()) -> ExportSpec: ...
@overload
def from_json(text: str, *, record: type[Record], trust: Iterable[str] = ()) -> Record: ...
def from_json(text: str, *, record: type[Any] = ExportSpec, trust: Iterable[str] = ()) -> Any:
    """The spec, or another record, that a JSON text describes. Reading it imports and runs nothing.

    Using a spec is another matter: an export imports the modules that the spec names and calls their functions. So the
    text may name functions of other packages only if they are in `trust`.

    Args:
        text: What `to_json` returned.
        record: The class of the record, such as `Report`; `tuple` for several records.
        trust: Packages or modules whose functions the text may name, such as `("my_package",)`. The functions in
            onnxfn's own tables need no trust.

    Returns:
        The spec, or the record of this class.

    Raises:
        InvalidSpec: The text is not JSON, a newer onnxfn wrote it, or it describes a record of another class, unknown
            fields or a value of a wrong type. Or the text names code of a package that is not in `trust`.
        UnknownName: The text names a record that onnxfn does not have.

    >>> from onnxfn import Report, to_json
    >>> from onnxfn.facts import EMPTY
    >>> from_json(to_json(EMPTY)) == EMPTY, from_json(to_json(Report([])), record=Report).passed
    (True, False)
    >>> from_json('{"record": "Generator", "name": "ids", "function": "my_package.dummies:ids"}')
    Traceback (most recent call last):
    onnxfn.specs.errors.InvalidSpec: field 'function' of Generator names code outside onnxfn's tables: \
'my_package.dummies:ids'; if you trust it: trust=('my_package',)
    """
    trusted = as_tuple(trust)
    try:
        data = json.loads(text)
    except RecursionError:
        raise InvalidSpec(f"the records are nested more than {DEEPEST} deep") from None
    except (TypeError, ValueError) as problem:  # a number of more than 4300 digits is a ValueError
        raise InvalidSpec(f"not JSON: {problem}") from problem
    if not isinstance(data, (dict, list)) or (isinstance(data, dict) and "record" not in data):
        raise InvalidSpec(f"the JSON is {shortened(data)}; a record is an object with the key 'record'")
    restored = from_plain(_without_header(data), trust=trusted)
    if not isinstance(restored, record):
        actual = type(restored).__name__
        raise InvalidSpec(f"the text describes a record {actual}, and not {record.__name__}; pass record={actual}")
    return restored


def digest(record: Any) -> str:
    """The SHA-256 of what a record means: the same in every process, on every system.

    It does not depend on the version of onnxfn. A cache of exports also needs the versions of packages and a digest of
    the weights, both of which `fingerprint` covers, and the options of `export`.

    Args:
        record: A spec or any other record.

    Returns:
        64 hexadecimal digits. They are equal for equal specs. The order of sizes and of generators does not
        count; that of inputs, outputs and tasks does.

    Raises:
        InvalidSpec: It is not a record, or a text in it has a null character or half of a surrogate pair.

    >>> from onnxfn import compose, sized
    >>> digest(compose(sized(a=1), sized(b=2))) == digest(compose(sized(b=2), sized(a=1)))
    True
    """
    if not has(type(record)):
        raise InvalidSpec(f"{shortened(record)} is not a record; pass a spec, such as spec_for('bert')")
    return sha256(json.dumps(_canonical(to_plain(record)), sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _canonical(data: Any) -> Any:
    """Plain data in which equal meaning is equal text."""
    if isinstance(data, list):
        return [_canonical(item) for item in data]
    if isinstance(data, float) and data.is_integer():
        return int(data)  # 1.0 == 1
    if not isinstance(data, dict):
        return data
    values = {name: _canonical(value) for name, value in data.items()}
    for name in UNORDERED.get(data["record"], ()):
        values[name] = sorted(values.get(name, ()), key=lambda value: json.dumps(value, sort_keys=True))
    if data["record"] in TENSORS:
        values.setdefault("path", [data["name"]])
    return {name: value for name, value in values.items() if value != []}

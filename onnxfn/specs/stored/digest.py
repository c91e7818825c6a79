"""`digest`: a SHA-256 of what a record means."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Any

from attrs import has

from onnxfn.specs.errors import InvalidSpec, shortened
from onnxfn.specs.stored.serialize import to_plain

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


def digest(record: Any) -> str:
    """The SHA-256 of what a record means: the same in every process, on every system.

    It does not depend on the version of onnxfn. A cache of exports also needs the versions of packages and a digest of
    the weights, both of which `fingerprint` covers, and the options of `export`.

    Args:
        record: A spec or any other record.

    Returns:
        64 hexadecimal digits. They are equal for equal specs, and for specs whose named records differ
        only in their order.

    Raises:
        InvalidSpec: It is not a record, or a text in it has a null character or half of a surrogate pair.

    >>> from onnxfn import compose, sized
    >>> digest(compose(sized(a=1), sized(b=2))) == digest(compose(sized(b=2), sized(a=1)))
    True
    """
    if not has(type(record)):
        raise InvalidSpec(f"{shortened(record)} is not a record; pass a spec, such as spec_for('bert')")
    text = json.dumps(_canonical(to_plain(record)), sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()


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

"""The code that a saved spec may name: that of another package only if the reader trusts the package."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from onnxfn.specs.errors import InvalidSpec

PATCHED_PACKAGES = ("diffusers", "sentence_transformers", "timm", "torch", "transformers")
"""The libraries that load the models of the tables. Their functions may be replaced during a trace."""

CODE_FIELDS: Mapping[tuple[str, str], tuple[str, ...]] = MappingProxyType(
    {
        ("Generator", "function"): (),
        ("ArgumentBuilder", "by"): (),
        ("Call", "submodule"): (),
        ("Call", "attention"): (),  # transformers can load `owner/repository` as code from the hub
        ("Patch", "by"): (),
        ("Patch", "name"): PATCHED_PACKAGES,
    }
)
"""Record and field with names of code -> the packages that need no trust there.

A short name, such as `recurrent.delta_rule`, is a key of a table of onnxfn and needs no trust. A full name such as
`onnxfn.specs.converters:resolve` does, because a module also holds what it imports.
"""


def check_trust(record: str, values: Mapping[str, Any], trust: tuple[str, ...]) -> None:
    """Raises InvalidSpec if a field of a record, whose class is named, names code of a package without trust."""
    for name, value in values.items():
        trusted = CODE_FIELDS.get((record, name))
        # The target of a patch always names code, other fields do with `:` or `/`.
        if trusted is None or not isinstance(value, str) or not (trusted or ":" in value or "/" in value):
            continue
        parts = re.split(r"[.:/]", value)  # `transformers.models.bert:f` lies in `transformers`
        if not any(parts[: len(inner)] == inner for inner in (package.split(".") for package in trusted + trust)):
            raise InvalidSpec(
                f"field {name!r} of {record} names code outside onnxfn's tables: {value!r}; "
                f"if you trust it: trust=({parts[0]!r},)"
            )

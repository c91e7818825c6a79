"""The code that a saved spec may name.

A spec holds names of functions. Reading it runs and imports nothing, but an export imports the modules that it names
and calls the functions. So a spec from a file may name code of another package only if the reader trusts that package.
"""

from __future__ import annotations

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

_SEPARATORS = re.compile(r"[.:/]")


def check_trust(record: str, values: Mapping[str, Any], trust: tuple[str, ...]) -> None:
    """Refuses a record that names code of a package without trust.

    Args:
        record: The name of the record's class.
        values: From the name of a field to its value.
        trust: Packages or modules whose code may be named.

    Raises:
        InvalidSpec: A field names code of a package that is not in `trust`.

    >>> check_trust("Generator", {"function": "os:system"}, ())
    Traceback (most recent call last):
    onnxfn.specs.errors.InvalidSpec: field 'function' of Generator names code outside onnxfn's tables: 'os:system'; \
if you trust it: trust=('os',)
    """
    for name, value in values.items():
        trusted = CODE_FIELDS.get((record, name))
        if trusted is not None and _names_code(value, by_target=bool(trusted)) and not _within(value, trusted + trust):
            package = _SEPARATORS.split(value)[0]
            raise InvalidSpec(
                f"field {name!r} of {record} names code outside onnxfn's tables: {value!r}; "
                f"if you trust it: trust=({package!r},)"
            )


def _names_code(value: Any, *, by_target: bool) -> bool:
    """Whether a value names a function of a module. The target of a patch always does, other fields with `:` or `/`."""
    return isinstance(value, str) and (by_target or ":" in value or "/" in value)


def _within(name: str, packages: tuple[str, ...]) -> bool:
    """Whether a name lies in a package or module: `transformers.models.bert:f` lies in `transformers`."""
    parts = _SEPARATORS.split(name)
    return any(parts[: len(inner)] == inner for inner in (package.split(".") for package in packages))

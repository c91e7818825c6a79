"""Tables of rows, some of which are for several model types."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from onnxfn.specs.algebra.spec import ExportSpec


def rows(table: Mapping[str, ExportSpec]) -> Mapping[str, ExportSpec]:
    """The spec of each model type; a key of `table` is one model type, or several with spaces between them.

    >>> list(rows({"bert albert": ExportSpec(), "t5": ExportSpec()}))
    ['bert', 'albert', 't5']
    """
    return MappingProxyType({name: row for names, row in table.items() for name in names.split()})

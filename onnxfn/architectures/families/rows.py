"""How rows are written: one row for several model types, sizes of axes in the trace and in the cases of the check."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from onnxfn.specs.algebra.compose import EMPTY, compose
from onnxfn.specs.algebra.dummies import sized
from onnxfn.specs.algebra.facts import case
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.records import Getter


def rows(table: Mapping[str, ExportSpec]) -> Mapping[str, ExportSpec]:
    """The spec of each model type; a key of `table` is one model type, or several with spaces between them.

    >>> list(rows({"bert albert": ExportSpec(), "t5": ExportSpec()}))
    ['bert', 'albert', 't5']
    """
    return MappingProxyType({name: row for names, row in table.items() for name in names.split()})


def sized_in(cases: str, /, **axes: Sequence[int | Getter | None]) -> ExportSpec:
    """A spec of the sizes of axes in the trace, then in each of these cases. None: the size in the trace."""
    sizes = [
        {axis: size for axis, size in zip(axes, row, strict=True) if size is not None}
        for row in zip(*axes.values(), strict=True)
    ]
    traced, *checked = (sized(**each) if each else EMPTY for each in sizes)
    return compose(traced, *(case(name, spec) for name, spec in zip(cases.split(), checked, strict=True)))

"""Sizes of dummy inputs in the trace and in the cases of the check, axis by axis."""

from __future__ import annotations

from collections.abc import Sequence

from onnxfn.specs.algebra.compose import EMPTY, compose
from onnxfn.specs.algebra.dummies import sized
from onnxfn.specs.algebra.facts import case
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.records import Getter


def sized_in(cases: str, /, **axes: Sequence[int | Getter | None]) -> ExportSpec:
    """A spec of the sizes of axes in the trace, then in each of these cases. None: the size in the trace.

    >>> from onnxfn.specs.algebra.dummies import sized
    >>> spec = sized_in("one several", height=(32, 24, 40))
    >>> spec == compose(sized(height=32), case("one", sized(height=24)), case("several", sized(height=40)))
    True
    """
    names = ("", *cases.split())
    sizes = [
        {axis: size for axis, size in zip(axes, row, strict=True) if size is not None}
        for row in zip(*axes.values(), strict=True)
    ]
    specs = [sized(**each) if each else EMPTY for each in sizes]
    return compose(specs[0], *(case(name, spec) for name, spec in zip(names[1:], specs[1:], strict=True)))

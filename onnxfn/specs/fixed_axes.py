"""Fixed axes: the axes of a tensor as the graph has them."""

from __future__ import annotations

from typing import Any

from onnxfn.specs.axes import AxisMap, fix_sizes
from onnxfn.specs.axis_symbols import with_symbols


def fixed_sizes(spec: Any) -> dict[str, int]:
    """`{axis symbol: size}` of the fixed axes of a spec whose size is a number; in a planned spec every size is one."""
    return {axis.name: axis.value for axis in spec.fixed_axes if isinstance(axis.value, int)}


def graph_axes(spec: Any, tensor: Any) -> AxisMap:
    """The axes of an input or output of a spec as the graph has them: by their names there, fixed axes as numbers."""
    renamed = {axis.name: axis.new for axis in getattr(spec, "axis_names", ())}
    return fix_sizes(with_symbols(tensor.axes, renamed) if renamed else tensor.axes, fixed_sizes(spec))

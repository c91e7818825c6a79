"""Fixed axes: the axes of a tensor as the graph has them."""

from __future__ import annotations

from typing import Any

from onnxfn.specs.axes import AxisMap, fix_sizes


def fixed_sizes(spec: Any) -> dict[str, int]:
    """`{axis symbol: size}` of the fixed axes of a spec whose size is a number; in a planned spec every size is one."""
    return {axis.name: axis.value for axis in spec.fixed_axes if isinstance(axis.value, int)}


def graph_axes(spec: Any, tensor: Any) -> AxisMap:
    """The axes of an input or output of a spec as the graph has them: fixed axes are numbers."""
    return fix_sizes(tensor.axes, fixed_sizes(spec))

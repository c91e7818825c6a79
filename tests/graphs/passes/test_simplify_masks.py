"""Masks are simplified, in graphs written by hand."""

import numpy as np
import onnx_ir
import pytest
from small_graphs import fused_graph, graph_from_text, noise, operators, run_unoptimized

from onnxfn.graphs.fusions.fusing import fuse_operators

# A mask as torch gathers it: at every row and every column.
GATHERED = """
gathers (bool[batch, keys] mask, bool[batch, 1, 1, keys] more) => (bool[batch, 1, 1, keys] y)
<int64[1] last = {-1}, int64[3] inner = {1, 2, 3}, int64[3] outer = {0, 1, 2}, int64 start = {0}, int64 one = {1},
 bool always = {1}>
{
    b = Shape <start = 0, end = 1> (mask)
    batch = Squeeze (b)
    k = Shape <start = 1, end = 2> (mask)
    keys = Squeeze (k)
    rows = Range (start, batch, one)
    row_axis = Unsqueeze (rows, inner)
    columns = Range (start, keys, one)
    column_axis = Unsqueeze (columns, outer)
    larger = Max (row_axis, column_axis)
    shape = Shape (larger)
    all_rows = Expand (row_axis, shape)
    all_columns = Expand (column_axis, shape)
    row_indices = Unsqueeze (all_rows, last)
    column_indices = Unsqueeze (all_columns, last)
    indices = Concat <axis = -1> (row_indices, column_indices)
    gathered = GatherND (mask, indices)
    sure = And (gathered, always)
    y = And (sure, more)
}"""
# The shapes as torch writes them; the shape inference of ONNX does not find them.
SHAPES = {
    "rows": ["batch"],
    "columns": ["keys"],
    "row_axis": ["batch", 1, 1, 1],
    "column_axis": [1, 1, 1, "keys"],
    "gathered": ["batch", 1, 1, "keys"],
    "sure": ["batch", 1, 1, "keys"],
}


def simplified_operators(text):
    """The operators of the fused graph of a mask, which computes the same mask."""
    model = graph_from_text(text)
    for value in [output for node in model.graph for output in node.outputs if output.name in SHAPES]:
        value.shape = onnx_ir.Shape(SHAPES[value.name])
    feeds = {"mask": noise(3, 5) > 0, "more": noise(3, 1, 1, 5, seed=1) > 0}
    expected = run_unoptimized(model, **feeds)
    fused = fuse_operators(model)
    assert np.array_equal(run_unoptimized(fused, **feeds)[0], expected[0])
    return operators(fused)


def test_a_mask_whose_elements_are_all_gathered_in_order_is_unsqueezed():
    assert simplified_operators(GATHERED) == ["Unsqueeze", "And"]


@pytest.mark.parametrize(
    ("line", "other_line"),
    [
        (
            "indices = Concat <axis = -1> (row_indices, column_indices)",
            "indices = Concat <axis = -1> (row_indices, row_indices)",
        ),
        ("columns = Range (start, keys, one)", "c = Sub (keys, one)\n columns = Range (c, less, less)"),
        ("rows = Range (start, batch, one)", "r = Range (start, batch, one)\n rows = Mul (r, start)"),
    ],
    ids=["rows twice", "columns backwards", "the first row only"],
)
def test_a_mask_that_is_gathered_in_another_way_is_still_gathered(line, other_line):
    text = GATHERED.replace(line, other_line).replace("int64 one = {1},", "int64 one = {1}, int64 less = {-1},")
    assert "GatherND" in simplified_operators(text)


def test_an_expand_between_unknown_shapes_stays():
    text = """
    expands (float[1, n] x, int64[2] sizes) => (float[m, n] y) {
        wide = Expand (x, sizes)
        y = Neg (wide)
    }"""
    model = fused_graph(text, unknown_shapes=("x", "wide"), x=noise(1, 3), sizes=np.array([2, 3]))
    assert operators(model) == ["Expand", "Neg"]

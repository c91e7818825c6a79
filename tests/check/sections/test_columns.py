"""A product by blocks of columns has the numbers of the product as it is."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxfn.check.sections.columns import products_by_columns

ROWS, COLUMNS = 48, 50


def product(dtype, nodes, initializers, factor):
    """What ONNX Runtime computes for the nodes of a graph of one product."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    inputs, outputs = (
        [helper.make_tensor_value_info(name, kind, [None, None, size])] for name, size in (("x", ROWS), ("y", COLUMNS))
    )
    graph = helper.make_graph(nodes, "product", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return onnxruntime.InferenceSession(model.SerializeToString()).run(["y"], {"x": factor})[0]


def written(dtype):
    random = np.random.default_rng(0)
    matrix = numpy_helper.from_array(random.standard_normal((ROWS, COLUMNS)).astype(dtype), "matrix")
    return helper.make_node("MatMul", ["x", "matrix"], ["y"]), matrix, random.standard_normal((2, 5, ROWS))


@pytest.mark.parametrize("width", [1, 7, 25, COLUMNS, 2 * COLUMNS])
def test_a_product_by_columns_has_the_same_numbers(width):
    node, matrix, factor = written(np.float16)
    nodes, constants = products_by_columns([node], {"matrix": matrix}, ROWS * COLUMNS, width * ROWS)
    assert sum(each.op_type == "MatMul" for each in nodes) == -(-COLUMNS // width)
    half = factor.astype(np.float16)
    whole = product(np.float16, [node], [matrix], half)
    blocks = product(np.float16, nodes, [matrix, *constants], half)
    # In float32 the two differ by the order of a sum, so that a few are rounded to the next number of float16.
    np.testing.assert_allclose(blocks, whole, rtol=2**-10, atol=1e-3)


def test_small_and_float32_matrices_stay_as_they_are():
    for dtype, large in ((np.float16, ROWS * COLUMNS + 1), (np.float32, 1)):
        node, matrix, _ = written(dtype)
        assert products_by_columns([node], {"matrix": matrix}, large) == ([node], [])


def test_a_product_of_two_computed_values_stays_as_it_is():
    node = helper.make_node("MatMul", ["x", "computed"], ["y"])
    assert products_by_columns([node], {}, 1) == ([node], [])


def test_two_products_of_a_section_share_no_value():
    node, matrix, _ = written(np.float16)
    other = helper.make_node("MatMul", ["x", "matrix"], ["z"])
    nodes, constants = products_by_columns([node, other], {"matrix": matrix}, 1, 7 * ROWS)
    names = [name for each in nodes for name in each.output] + [each.name for each in constants]
    assert len(names) == len({*names})
    assert all(each.data_type == TensorProto.INT64 for each in constants)

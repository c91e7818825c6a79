"""A product by blocks of columns has the numbers of the product as it is."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxfn.check.cuts.columns import products_by_columns

ROWS, COLUMNS = 48, 50


def product(dtype, nodes, initializers, factor):
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    inputs, outputs = (
        [helper.make_tensor_value_info(name, kind, [None, None, size])] for name, size in (("x", ROWS), ("y", COLUMNS))
    )
    graph = helper.make_graph(nodes, "product", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return onnxruntime.InferenceSession(model.SerializeToString()).run(["y"], {"x": factor})[0]


def written(dtype, *, is_transposed=False):
    random = np.random.default_rng(0)
    array = random.standard_normal((ROWS, COLUMNS)).astype(dtype)
    swap = helper.make_node("Transpose", ["matrix"], ["swapped"], perm=[1, 0])
    multiply = helper.make_node("MatMul", ["x", "swapped" if is_transposed else "matrix"], ["y"])
    matrix = numpy_helper.from_array(array.T.copy() if is_transposed else array, "matrix")
    nodes = [swap, multiply] if is_transposed else [multiply]
    return nodes, matrix, random.standard_normal((2, 5, ROWS)).astype(dtype)


@pytest.mark.parametrize("width", [1, 7, 25, COLUMNS, 2 * COLUMNS])
@pytest.mark.parametrize(("dtype", "is_transposed"), [(np.float16, False), (np.float16, True), (np.float32, True)])
def test_a_product_by_columns_has_the_same_numbers(dtype, is_transposed, width):
    nodes, matrix, factor = written(dtype, is_transposed=is_transposed)
    blocks, constants = products_by_columns(nodes, {"matrix": matrix}, ROWS * COLUMNS, width * ROWS)
    assert sum(each.op_type == "MatMul" for each in blocks) == -(-COLUMNS // width)
    assert all(each.input[0] != "matrix" for each in blocks if each.op_type == "Transpose")
    whole = product(dtype, nodes, [matrix], factor)
    # In float32 the two differ by the order of a sum, so that a few are rounded to the next number of float16.
    rounding = {"rtol": 2**-10, "atol": 1e-3} if dtype is np.float16 else {"rtol": 1e-5, "atol": 1e-5}
    np.testing.assert_allclose(product(dtype, blocks, [matrix, *constants], factor), whole, **rounding)


def test_matrices_that_are_small_or_not_copied_stay_as_they_are():
    for dtype, large in ((np.float16, ROWS * COLUMNS + 1), (np.float32, 1)):
        nodes, matrix, _ = written(dtype)
        assert products_by_columns(nodes, {"matrix": matrix}, large) == (nodes, [])
    nodes, matrix, _ = written(np.float32, is_transposed=True)
    assert products_by_columns(nodes, {"matrix": matrix}, ROWS * COLUMNS + 1) == (nodes, [])


def test_a_product_of_two_computed_values_stays_as_it_is():
    node = helper.make_node("MatMul", ["x", "computed"], ["y"])
    assert products_by_columns([node], {}, 1) == ([node], [])


def test_a_transposed_matrix_that_another_node_reads_is_still_computed():
    nodes, matrix, _ = written(np.float32, is_transposed=True)
    other = helper.make_node("Identity", ["swapped"], ["z"])
    blocks, _ = products_by_columns([*nodes, other], {"matrix": matrix}, 1, 7 * ROWS)
    assert [blocks[0], blocks[-1]] == [nodes[0], other]
    assert nodes[1] not in blocks


def test_two_products_of_a_section_share_no_value():
    [node], matrix, _ = written(np.float16)
    other = helper.make_node("MatMul", ["x", "matrix"], ["z"])
    nodes, constants = products_by_columns([node, other], {"matrix": matrix}, 1, 7 * ROWS)
    names = [name for each in nodes for name in each.output] + [each.name for each in constants]
    assert len(names) == len({*names})
    assert all(each.data_type == TensorProto.INT64 for each in constants)

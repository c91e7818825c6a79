"""The producer and the external data of ONNX files are read without their weights."""

import io

import numpy as np
import onnx
import pytest
from google.protobuf.internal.encoder import _VarintBytes
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from onnxfn.weights import onnx_files


def model(producer="onnxfn", locations=()):
    arrays = [np.arange(300, dtype=np.float32), *(np.ones(5, dtype=np.float32) for _ in locations)]
    tensors = [numpy_helper.from_array(array, f"w{index}") for index, array in enumerate(arrays)]
    for tensor, location in zip(tensors[1:], locations, strict=True):
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", location), ("offset", "4096"), ("length", "20")):
            tensor.external_data.add(key=key, value=value)
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [300])
    graph = helper.make_graph([helper.make_node("Identity", ["w0"], ["y"])], "main", [], [output], tensors)
    return helper.make_model(graph, producer_name=producer)


def written(path, proto):
    with path.open("wb") as file:
        onnx_files.write_model(proto, file, {})
    return path


def test_large_weights_of_a_file_become_external_data_in_the_file_itself(tmp_path):
    """ONNX reads the same weights from the result."""
    arrays = [np.arange(600, dtype=dtype) for dtype in ("float32", "uint8", "float16", "int64") * 3]
    tensors = [numpy_helper.from_array(array, "w" + "0" * index) for index, array in enumerate(arrays)]
    small = numpy_helper.from_array(np.ones(3, np.float32), "small")
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [600])
    nodes = [helper.make_node("Identity", ["w"], ["y"])]
    graph = helper.make_graph(nodes, "main", [], [output], [*tensors, small])
    path = written(tmp_path / "model.onnx", helper.make_model(graph, producer_name="onnxfn"))
    result = onnx.load_from_string(onnx_files.with_weights_in_place(path, 600))
    outside = {tensor.name for tensor in result.graph.initializer if tensor.data_location == TensorProto.EXTERNAL}
    assert outside == {tensor.name for tensor in tensors}
    onnx.external_data_helper.load_external_data_for_model(result, str(tmp_path))
    restored = {tensor.name: numpy_helper.to_array(tensor) for tensor in result.graph.initializer}
    for tensor, array in zip(tensors, arrays, strict=True):
        np.testing.assert_array_equal(restored[tensor.name], array)
    assert (result.producer_name, [*result.graph.node], restored["small"].tolist()) == ("onnxfn", nodes, [1, 1, 1])


def test_the_producer_is_onnxfn_only_for_files_that_it_wrote(tmp_path):
    own, other = written(tmp_path / "own.onnx", model()), written(tmp_path / "other.onnx", model("onnxfn2"))
    onnx.save(onnx.load(own), tmp_path / "saved_again.onnx")
    files = (own, other, tmp_path / "saved_again.onnx")
    assert [*map(onnx_files.written_by_onnxfn, files)] == [True, False, False]


def test_the_names_of_external_data_are_those_that_onnx_reads(tmp_path):
    locations = ("a.data", "b.data", "a.data")
    (tmp_path / "saved.onnx").write_bytes(model(locations=locations).SerializeToString())
    for path in (written(tmp_path / "streamed.onnx", model(locations=locations)), tmp_path / "saved.onnx"):
        assert onnx_files.external_data_names(path) == {"a.data", "b.data"}
    assert onnx_files.external_data_names(written(tmp_path / "inside.onnx", model())) == frozenset()


@pytest.mark.parametrize(
    "content", [b"", b"\x0f", b"\x3a", b"\x3a\xff\xff\xff\xff\x0f", b"text, no protobuf", bytes(9)]
)
def test_a_file_that_is_not_onnx_has_no_producer_and_no_external_data(tmp_path, content):
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    assert not onnx_files.written_by_onnxfn(path)
    assert onnx_files.external_data_names(path) == frozenset()


@pytest.mark.parametrize("length", range(1, 90, 7))
def test_a_truncated_file_is_not_an_error(tmp_path, length):
    path = written(tmp_path / "model.onnx", model(locations=("a.data",)))
    path.write_bytes(path.read_bytes()[:-length])
    assert not onnx_files.written_by_onnxfn(path)
    assert onnx_files.external_data_names(path) == frozenset()


def test_a_file_mentions_a_text(tmp_path):
    path = written(tmp_path / "model.onnx", model(locations=("a.data",)))
    assert onnx_files.mentions(path, "a.data")
    assert not onnx_files.mentions(path, "b.data")
    assert not onnx_files.mentions(tmp_path / "missing.onnx", "a.data")


def test_nodes_in_branches_and_in_lists_of_branches_are_nodes_of_the_file(tmp_path):
    deep = helper.make_graph([helper.make_node("Neg", ["w0"], ["c"])], "deep", [], [])
    inner = helper.make_graph([helper.make_node("If", ["w0"], ["b"], then_branch=deep)], "inner", [], [])
    proto = model()
    proto.graph.node.append(helper.make_node("Several", ["w0"], ["a"], domain="own", branches=[inner, deep]))
    onnx.save(proto, tmp_path / "model.onnx")
    operators = [node.op_type for node in onnx_files.graph_nodes(tmp_path / "model.onnx")]
    assert operators == ["Identity", "Several", "If", "Neg", "Neg"]


# A written ModelProto is equal when it is read again


@given(st.integers(0, 1 << 63))
def test_a_varint_is_that_of_protobuf(number):
    assert onnx_files.varint(number) == _VarintBytes(number)


def full_model(arrays):
    """A model with these initializers, and with every field that a model may have."""
    input_ = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])
    output = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "main",
        [input_],
        [output],
        [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()],
        doc_string="of the graph",
        value_info=[helper.make_tensor_value_info("z", TensorProto.FLOAT, [3])],
    )
    return helper.make_model(graph, producer_name="tests", opset_imports=[helper.make_opsetid("", 18)])


@given(
    st.dictionaries(st.text(max_size=3), st.lists(st.integers(0, 255), max_size=300)),
    st.sets(st.integers(0, 9)),
    st.integers(1, 100),
)
def test_a_written_model_is_equal_when_it_is_read(contents, chunked, step):
    """Some initializers come in chunks, some in the message. Their order stays."""
    expected = full_model({name: np.array(content, np.uint8) for name, content in contents.items()})
    proto, raw = onnx.ModelProto(), {}
    proto.CopyFrom(expected)
    for index, tensor in enumerate(proto.graph.initializer):
        if index in chunked:
            data = tensor.raw_data
            raw[tensor.name] = (len(data), [data[start : start + step] for start in range(0, len(data), step)])
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value="elsewhere")
    file = io.BytesIO()
    onnx_files.write_model(proto, file, raw)
    read = onnx.ModelProto.FromString(file.getvalue())
    for tensor in (*expected.graph.initializer, *read.graph.initializer):
        tensor.raw_data = tensor.raw_data  # present, if empty
    assert read == expected

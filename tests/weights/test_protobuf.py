"""A written ModelProto is equal when it is read again."""

import io

import numpy as np
import onnx
from google.protobuf.internal.encoder import _VarintBytes
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from onnxfn.weights.onnx_files import varint, write_model


@given(st.integers(0, 1 << 63))
def test_a_varint_is_that_of_protobuf(number):
    assert varint(number) == _VarintBytes(number)


def model(arrays):
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
    expected = model({name: np.array(content, np.uint8) for name, content in contents.items()})
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
    write_model(proto, file, raw)
    read = onnx.ModelProto.FromString(file.getvalue())
    for tensor in (*expected.graph.initializer, *read.graph.initializer):
        tensor.raw_data = tensor.raw_data  # present, if empty
    assert read == expected

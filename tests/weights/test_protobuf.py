"""A ModelProto as bytes: what is read back is what was given."""

from __future__ import annotations

import io

import numpy as np
import onnx
from google.protobuf.internal.encoder import _VarintBytes
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from onnxfn.weights.protobuf import varint, write_model


@given(st.integers(0, 1 << 63))
def test_a_number_is_written_as_protobuf_writes_it(number):
    assert varint(number) == _VarintBytes(number)


def model(arrays):
    """A model with these initializers, and all the parts that a model may have."""
    given_, made = (
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"]),
        helper.make_empty_tensor_value_info("y"),
    )
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "main",
        [given_],
        [made],
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
def test_what_is_read_back_is_what_was_given(numbers, apart, step):
    """Some initializers come in chunks, some in the message, and they keep their order."""
    whole = model({name: np.array(those, np.uint8) for name, those in numbers.items()})
    parts, raw = onnx.ModelProto(), {}
    parts.CopyFrom(whole)
    for index, tensor in enumerate(parts.graph.initializer):
        if index in apart:
            data = tensor.raw_data
            raw[tensor.name] = (len(data), [data[start : start + step] for start in range(0, len(data), step)])
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value="elsewhere")
    written = io.BytesIO()
    write_model(parts, written, raw)
    read = onnx.ModelProto.FromString(written.getvalue())
    for tensor in (*whole.graph.initializer, *read.graph.initializer):
        tensor.raw_data = tensor.raw_data  # present, if empty
    assert read == whole

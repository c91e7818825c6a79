import numpy as np
import onnx_ir
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from small_graphs import graph_from_text

from onnxfn.run.value_ranges import value_ranges

GRAPH = """small (float[rows, 3] x) => (float[rows, 3] y)
    <float[1] half = {0.5}> {
    scaled = Mul(x, half)
    size = Shape(x)
    wave = Sin(scaled)
    y = Add(wave, x)
}"""
FEEDS = st.lists(
    st.integers(0, 3).flatmap(lambda rows: arrays.arrays(np.float32, (rows, 3), elements=st.floats(-9, 9, width=32))),
    min_size=1,
    max_size=3,
)


@settings(max_examples=20, deadline=None)
@given(FEEDS)
def test_ranges_are_those_of_all_elements_in_all_feeds(tmp_path_factory, inputs):
    file = tmp_path_factory.mktemp("ranges") / "model.onnx"
    onnx_ir.save(graph_from_text(GRAPH), file)
    every = np.concatenate(inputs).reshape(-1)
    values = {"scaled": every / 2, "wave": np.sin(every / 2), "y": np.sin(every / 2) + every}
    ranges = value_ranges(file, ({"x": each} for each in inputs))
    expected = {name: (array.min(), array.max()) for name, array in values.items() if array.size}
    assert list(ranges) == list(expected)
    for name, pair in expected.items():
        np.testing.assert_allclose(ranges[name], pair, rtol=1e-5, atol=1e-6)
    assert value_ranges(file, [{"x": inputs[0]}], ["wave"]).keys() == ({"wave"} if inputs[0].size else set())

"""Arrays that a caller passes, against what an ONNX file takes: formulas and limits of axes, dtypes."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal

from onnxfn.run.feeds import feeds
from onnxfn.specs.errors import InvalidSpec


def session(ports, limits=""):
    return SimpleNamespace(
        get_inputs=lambda: [SimpleNamespace(name=name, type=kind, shape=shape) for name, kind, shape in ports],
        get_modelmeta=lambda: SimpleNamespace(custom_metadata_map={"onnxfn.limits": limits}),
    )


DECODER = session(
    [
        ("ids", "tensor(int64)", ["batch", "now"]),
        ("mask", "tensor(int64)", ["batch", "past + now"]),
        ("cache", "tensor(float)", ["batch", 2, "past", 4]),
    ]
)


@given(st.integers(0, 3), st.integers(0, 4), st.integers(0, 4), st.integers(0, 9))
def test_an_axis_with_a_formula_has_the_size_of_the_formula(batch, past, now, mask):
    arrays = {
        "ids": np.zeros((batch, now), np.int64),
        "mask": np.zeros((batch, mask), np.int64),
        "cache": np.zeros((batch, 2, past, 4), np.float32),
    }
    if mask == past + now:
        fed = feeds(DECODER, "m", arrays)
        assert {name: fed[name].shape for name in fed} == {name: arrays[name].shape for name in arrays}
    else:
        assert refusal(InvalidSpec, feeds, DECODER, "m", arrays) == (
            f"mask has the shape [{batch}, {mask}], and past + now is {past + now} for past={past}, now={now}; "
            "m takes [batch, past + now]"
        )


def test_an_empty_cache_of_the_encoder_is_taken_beside_its_output():
    merged = session([(name, "tensor(float)", ["length"]) for name in ("states", "past.0.encoder.key")])
    fed = feeds(merged, "m", {"states": [0.5] * 5, "past.0.encoder.key": []})
    assert {name: array.shape for name, array in fed.items()} == {"states": (5,), "past.0.encoder.key": (0,)}
    assert "length is 5" in refusal(InvalidSpec, feeds, merged, "m", {"states": [0.5] * 5, "past.0.encoder.key": [0.5]})


@given(st.integers(0, 12))
def test_a_size_outside_the_limits_of_the_file_is_refused(size):
    limited = session([("ids", "tensor(int64)", ["length"])], "length >= 4; length <= 9")
    if 4 <= size <= 9:
        assert feeds(limited, "m", {"ids": [1] * size})["ids"].shape == (size,)
    else:
        message = refusal(InvalidSpec, feeds, limited, "m", {"ids": [1] * size})
        assert message == f"length is {size} in ids; m is limited to length >= 4; length <= 9"


@pytest.mark.parametrize(("values", "kind"), [(7, "int64"), (0.5, "float"), (True, "bool"), ([], "float")])
def test_numbers_and_lists_get_the_dtype_of_the_input(values, kind):
    axes = [None] * np.ndim(values)
    (array,) = feeds(session([("x", f"tensor({kind})", axes)]), "m", {"x": values}).values()
    assert array.dtype == {"float": np.float32}.get(kind, kind)
    assert array.tolist() == values


def test_a_static_axis_has_its_size():
    message = refusal(InvalidSpec, feeds, session([("x", "tensor(float)", ["n", 3])]), "m", {"x": [[1.0, 2.0]]})
    assert message == "x has the shape [1, 2]; m takes [n, 3]"

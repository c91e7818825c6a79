"""A call on the meta device has the shapes of the real one, and the model does not see the difference."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from onnxfn.graphs.capture.meta_tensors import WritesIntoValues, leaves, meta_call, replaced

CPU = torch.device("cpu")
DEVICE_OF = torch.Tensor.device.__get__
IS_META = torch.Tensor.is_meta.__get__

LAYOUT_CALLS = (
    lambda x: x.transpose(0, 1),
    lambda x: x[:, 1:],
    lambda x: x.chunk(2, 1),
    lambda x: x.double() * 2,
    lambda x: x.T.contiguous(),
)

nested = st.recursive(
    st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
)


def call_with(*model_tensors):
    return meta_call({id(tensor) for tensor in model_tensors}, CPU)


@given(st.integers(0, 3), st.integers(0, 3))
def test_a_call_has_the_shape_of_the_real_one(rows, columns):
    weight, x = torch.randn(columns, 4), torch.randn(rows, 4)
    result = call_with(weight)(torch.nn.functional.linear, (x, weight), {})
    assert result.is_meta
    assert result.shape == torch.nn.functional.linear(x, weight).shape


def test_a_call_on_tensors_that_are_neither_meta_nor_the_model_s_is_real():
    assert call_with()(torch.add, (torch.tensor(1), 2), {}) == 3


def test_a_tensor_appears_to_be_on_the_device_of_the_model():
    x = torch.empty(2, device="meta")
    assert call_with()(DEVICE_OF, (x,), {}) == CPU
    assert call_with()(IS_META, (x,), {}) is False
    assert call_with()(torch.Tensor.to, (x, CPU), {}).is_meta


def test_a_parameter_that_a_call_returns_as_it_is_stays_the_parameter():
    weight = torch.randn(2)
    assert call_with(weight)(torch.dropout, (weight, 0.5, False), {}) is weight


@pytest.mark.parametrize("named", [{}, {"out": torch.zeros(2)}])
def test_nothing_is_written_into_a_tensor_with_values(named):
    function = torch.Tensor.add_ if not named else torch.add
    with pytest.raises(WritesIntoValues, match=r"add_? writes into a tensor with values"):
        call_with()(function, (torch.zeros(2), torch.empty(2, device="meta")), named)


@given(nested)
def test_containers_stay_what_they_are(value):
    assert replaced(value, lambda item: item) == value
    assert type(replaced(value, lambda item: item)) is type(value)


def test_leaves_tell_containers_of_other_lengths_apart_by_their_lengths():
    assert leaves([1, (2, slice(3))]) == [2, 1, 2, 2, 3, None, 3, None]


@given(st.integers(1, 3), st.integers(2, 5))
@pytest.mark.parametrize("function", LAYOUT_CALLS)
def test_an_equal_call_has_new_tensors_of_the_layouts_that_torch_gives(function, rows, columns):
    call, x, other = call_with(), *(torch.empty(rows, columns, device="meta") for _ in range(2))
    first, again, expected = call(function, (x,), {}), call(function, (other,), {}), function(other)
    pairs = zip(*(value if isinstance(value, tuple) else (value,) for value in (first, again, expected)), strict=True)
    for old, new, torch_s in pairs:
        assert new is not old
        layouts = [(x.shape, x.stride(), x.storage_offset(), x.dtype, x.device) for x in (new, torch_s)]
        assert layouts[0] == layouts[1]


def test_a_function_is_called_once_for_arguments_of_equal_layouts():
    seen = []

    def function(x, scale):
        seen.append((tuple(x.shape), scale))
        return x * scale

    call, x = call_with(), torch.empty(2, 3, device="meta")
    for arguments in ((x, 2), (x + 1, 2), (x, 2.0), (x.T, 2), (x.double(), 2), (x, True)):
        call(function, arguments, {})
    assert seen == [((2, 3), 2), ((2, 3), 2.0), ((3, 2), 2), ((2, 3), 2), ((2, 3), True)]


def test_a_function_is_called_each_time_for_an_argument_of_unknown_type():
    seen = []

    def function(x, what):
        seen.append(what)
        return x + 1

    call, x, unknown = call_with(), torch.empty(2, device="meta"), object()
    for _ in range(2):
        call(function, (x, unknown), {})
    assert seen == [unknown, unknown]

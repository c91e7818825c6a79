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

"""Symmetric codes are those of ONNX Runtime's kernel, bit by bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxfn.weights.onnxruntime_kernels import block_codes
from onnxfn.weights.symmetric_blocks import symmetric_codes

bits_of_codes = st.sampled_from((2, 4, 8))
block_sizes = st.sampled_from((16, 32, 64, 128))
ordinary = st.floats(-100, 100, width=32, allow_subnormal=False)


def assert_as_the_kernel(rows, bits, block_size):
    codes, scales, _ = block_codes(rows, bits, block_size, symmetric=True)
    own_codes, own_scales = symmetric_codes(rows, bits, block_size)
    np.testing.assert_array_equal(own_codes, codes)
    np.testing.assert_array_equal(own_scales.view(np.uint32), scales.view(np.uint32))


@given(st.integers(1, 5), st.integers(1, 4), bits_of_codes, block_sizes, st.integers(0, 10**6), st.integers(-18, 18))
def test_codes_and_scales_of_random_rows_are_those_of_the_kernel(count, blocks, bits, block_size, seed, exponent):
    rows = np.random.default_rng(seed).standard_normal((count, blocks * block_size), np.float32)
    assert_as_the_kernel(rows * np.float32(10.0**exponent), bits, block_size)


@given(st.lists(ordinary, min_size=16, max_size=16), bits_of_codes)
def test_codes_and_scales_of_chosen_numbers_are_those_of_the_kernel(numbers, bits):
    assert_as_the_kernel(np.array([numbers], np.float32), bits, 16)


@given(bits_of_codes, st.integers(-4, 4), st.integers(-3, 3), st.booleans())
def test_elements_between_two_codes_are_rounded_as_the_kernel_rounds(bits, exponent, nudge, negative):
    """Halves of a step, and the numbers next to them."""
    scale = np.float32(2.0**exponent)
    middle = 1 << (bits - 1)
    halves = (np.arange(2 - 2 * middle, 2 * middle) / 2 * scale).astype(np.float32)
    rows = np.zeros((len(halves), 16), np.float32)
    rows[:, 0] = -middle * scale  # the largest element, so that the scale is known
    rows[:, 1] = (halves.view(np.int32) + np.int32(nudge) * (halves != 0)).view(np.float32)
    assert_as_the_kernel(-rows if negative else rows, bits, 16)


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_a_block_of_zeros_is_stored_as_the_kernel_stores_it(zero):
    assert_as_the_kernel(np.full((2, 32), zero, np.float32), 4, 32)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 1e-40])
def test_rows_whose_scales_have_no_reciprocal_are_left_to_the_kernel(number):
    rows = np.zeros((2, 32), np.float32)
    rows[1, 3] = number
    assert symmetric_codes(rows, 4, 32) is None


def test_rows_whose_last_block_is_not_full_are_left_to_the_kernel():
    assert symmetric_codes(np.ones((2, 40), np.float32), 4, 32) is None

"""Patches for rows of patches of images give what the functions of transformers give that loop over the images."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import vision_utils
from transformers.models.kimi_k25 import modeling_kimi_k25
from transformers.models.muse_glimmer import modeling_muse_glimmer

from onnxfn.architectures.patches import packed_vision

side = st.integers(1, 6).map(lambda half: 2 * half)
grids = st.lists(st.tuples(st.integers(1, 3), side, side), min_size=1, max_size=4).map(torch.tensor)


@given(grids, st.booleans())
def test_positions_and_ends_of_segments_are_those_of_the_loops(grid, flag):
    expected = vision_utils.get_vision_position_ids(grid, 2, include_temporal=flag)
    assert torch.equal(packed_vision.position_ids(grid, 2, include_temporal=flag), expected)
    ends = vision_utils.get_vision_cu_seqlens(grid, merge_temporal=flag)
    assert torch.equal(packed_vision.segment_ends(grid, merge_temporal=flag), ends.long())


@given(grids, st.integers(1, 3))
def test_windows_are_those_of_the_loops(grid, side):
    index, ends = packed_vision.window_index(grid, 2, side * 8, 4)
    expected_index, expected_ends = vision_utils.get_vision_window_index(grid, 2, side * 8, 4)
    assert torch.equal(index, expected_index)
    assert torch.equal(ends.unique(), expected_ends.long())


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@given(grid=grids)
def test_interpolation_is_that_of_the_loops(mode, grid):
    arguments = {"num_grid_per_side": 7, "mode": mode, "spatial_merge_size": 2}
    expected = vision_utils.get_vision_interpolation_indices_and_weights(grid, **arguments)
    for actual, wanted in zip(
        packed_vision.interpolation_indices_and_weights(grid, **arguments), expected, strict=True
    ):
        assert torch.equal(actual, wanted)


@given(grids)
def test_orders_of_patches_are_those_of_the_loops(grid):
    assert torch.equal(
        packed_vision.merged_order(grid, 2), modeling_muse_glimmer.get_vision_pixel_shuffle_index(grid, 2)
    )
    assert torch.equal(packed_vision.frame_index(grid), modeling_kimi_k25.get_vision_frame_index(grid))


@given(grids, st.integers(1, 3))
def test_merged_frames_are_those_of_the_loops(grid, frames):
    grid[:, 0] = frames
    expected = modeling_kimi_k25.get_vision_temporal_merge_index(grid, 2, 2)
    assert torch.equal(packed_vision.temporal_merge_index(grid, 2, 2), expected)

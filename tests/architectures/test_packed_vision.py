"""Patches for rows of patches of images give what the functions of transformers give that loop over the images."""

import pytest
import shrunk
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import vision_utils
from transformers.models.gemma4 import modeling_gemma4
from transformers.models.kimi_k25 import modeling_kimi_k25
from transformers.models.minicpmv4_6 import modeling_minicpmv4_6
from transformers.models.minicpmv4_6.configuration_minicpmv4_6 import MiniCPMV4_6Config
from transformers.models.muse_glimmer import modeling_muse_glimmer
from transformers.models.udop import modeling_udop

from onnxfn.architectures.patches import grid_convolutions, packed_vision, text

side = st.integers(1, 6).map(lambda half: 2 * half)
grids = st.lists(st.tuples(st.integers(1, 3), side, side), min_size=1, max_size=4).map(torch.tensor)


@given(grids, st.booleans())
def test_positions_are_those_of_the_loops(grid, flag):
    expected = vision_utils.get_vision_position_ids(grid, 2, include_temporal=flag)
    assert torch.equal(packed_vision.position_ids(grid, 2, include_temporal=flag), expected)


@given(grids, st.integers(1, 3))
def test_windows_are_those_of_the_loops(grid, side):
    index, ends = packed_vision.window_index(grid, 2, side * 8, 4)
    expected_index, expected_ends = vision_utils.get_vision_window_index(grid, 2, side * 8, 4)
    assert torch.equal(index, expected_index)
    assert torch.equal(ends.unique(), expected_ends.long())


@given(grids)
def test_orders_of_patches_are_those_of_the_loops(grid):
    expected = modeling_muse_glimmer.get_vision_pixel_shuffle_index(grid, 2)
    assert torch.equal(packed_vision.merged_order(grid, 2), expected)
    assert torch.equal(packed_vision.frame_index(grid), modeling_kimi_k25.get_vision_frame_index(grid))


@given(grids, st.integers(1, 3))
def test_merged_frames_are_those_of_the_loops(grid, frames):
    merge = getattr(modeling_kimi_k25.Kimi_K25VisionModel, "temporal_merge", None)
    if merge:  # since transformers 5.24
        states = torch.randn(int(grid.prod(-1).sum()), 3, generator=torch.Generator().manual_seed(0))
        torch.testing.assert_close(
            packed_vision.merged_frames(None, states, grid, 2, 2), merge(None, states, grid, 2, 2)
        )
        return
    grid[:, 0] = frames
    expected = modeling_kimi_k25.get_vision_temporal_merge_index(grid, 2, 2)
    assert torch.equal(packed_vision.temporal_merge_index(grid, 2, 2), expected)


@given(grids, st.integers(2, 9))
def test_nearest_positions_are_those_of_the_loops(grid, side):
    sizes = grid[:, 1:]
    expected = vision_utils.get_vision_nearest_position_ids(sizes, side)
    assert torch.equal(packed_vision.nearest_position_ids(sizes, side), expected)


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 3))
def test_means_of_squares_are_those_of_one_hot(side, height, width):
    columns, rows = torch.meshgrid(torch.arange(width * side), torch.arange(height * side), indexing="xy")
    places = torch.stack([columns.flatten(), rows.flatten()], dim=-1)[None]
    padded = torch.cat([places, torch.full((1, side**2, 2), -1)], dim=1)
    states = torch.randn(1, padded.shape[1], 4).masked_fill((padded == -1).all(-1, keepdim=True), 0.0)
    pooler, length = modeling_gemma4.Gemma4VisionPooler, height * width + 1
    expected = pooler._avg_pool_by_positions(None, states, padded, length)
    for actual, wanted in zip(packed_vision.averaged_tokens(None, states, padded, length), expected, strict=True):
        assert torch.equal(actual, wanted)


@given(st.integers(1, 3), st.integers(1, 9), st.integers(0, 2**31))
def test_patches_beside_a_text_are_those_of_the_loops(batch, length, seed):
    random = torch.Generator().manual_seed(seed)
    corners = torch.rand(batch, length, 2, 2, generator=random).sort(dim=2).values.flatten(2)
    corners[:, 0] = float(seed % 2)
    patches, texts = torch.randn(batch, 16, 4, generator=random), torch.randn(batch, length, 4, generator=random)
    arguments = (corners, None, torch.ones(batch, length, dtype=torch.long), 4, 0, 32, 8)
    expected = modeling_udop.combine_image_text_embeddings(patches.clone(), texts.clone(), *arguments)
    for actual, wanted in zip(text.joined_embeddings(patches, texts, *arguments), expected, strict=True):
        torch.testing.assert_close(actual, wanted, rtol=0, atol=0, check_dtype=False)


@pytest.mark.parametrize("rounds", [1, 2])
@given(grid=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=4))
def test_merged_patches_of_minicpm_are_those_of_the_loops(rounds, grid):
    sizes = {"vision_config": {"hidden_size": 8}, "text_config": {"model_type": "llama", "hidden_size": 32}}
    merger = modeling_minicpmv4_6.MiniCPMV4_6Merger(MiniCPMV4_6Config(**sizes, merger_times=rounds))
    target_sizes = torch.tensor(grid) * 2**rounds
    states = torch.randn(1, int(target_sizes.prod(-1).sum()), 8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = torch.cat(merger(states, target_sizes))
        actual = grid_convolutions.minicpm_features(merger, states, target_sizes)
    torch.testing.assert_close(actual, expected)


# Towers that convolve patches on their grids

images = st.lists(st.tuples(st.just(1), side, side), min_size=1, max_size=4).map(torch.tensor)


@pytest.fixture(scope="module")
def towers():
    return {
        "lfm3_vl_vision": shrunk.model("lfm3_vl_vision", "Lfm3VlVisionModel"),
        "hunyuan_vl_vision": shrunk.model("hunyuan_vl_vision", "HunYuanVLVisionTransformer"),
    }


@settings(max_examples=10)
@given(grid=grids)
def test_the_convolution_of_lfm3_is_that_of_each_frame(towers, grid):
    layer = next(each.conv for each in towers["lfm3_vl_vision"].layers if not each.is_attention_layer)
    states = torch.randn(int(grid.prod(-1).sum()), layer.in_proj.in_features)
    with torch.no_grad():
        convolved = grid_convolutions.lfm3_vl_convolution(layer, states, grid)
        torch.testing.assert_close(convolved, layer(states, grid.tolist()))


@settings(max_examples=10)
@given(grid=images)
def test_the_features_of_hunyuan_are_those_of_each_image(towers, grid):
    tower = towers["hunyuan_vl_vision"]
    merger, size = tower.patch_merger, tower.config.hidden_size
    states = torch.randn(int(grid.prod(-1).sum()), size)
    with torch.no_grad():
        parts = states.split(grid.prod(-1).tolist())
        sizes = [tuple(sides) for sides in grid[:, 1:].tolist()]
        expected = [merger(part[None], size=size)[0] for part, size in zip(parts, sizes, strict=True)]
        torch.testing.assert_close(grid_convolutions._hunyuan_rows(merger, states, grid), torch.cat(expected))


@settings(max_examples=5)
@given(grid=images)
def test_the_embeddings_of_hunyuan_are_those_of_each_image(towers, grid):
    embeddings = towers["hunyuan_vl_vision"].embeddings
    pixels = torch.randn(int(grid.prod(-1).sum()), embeddings.patch_embedding.weight[0].numel())
    with torch.no_grad():
        ours = grid_convolutions._hunyuan_embeddings(embeddings, pixels, grid)
        torch.testing.assert_close(ours, embeddings(pixels, grid)[0], atol=1e-5, rtol=1e-5)

"""Patches for towers that convolve patches on their grids give what the loops of transformers give."""

import pytest
import shrunk
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxfn.architectures.patches import grid_convolutions

side = st.integers(1, 4).map(lambda half: 2 * half)
image = st.tuples(st.just(1), side, side)
video = st.tuples(st.integers(1, 3), side, side)


def grids(item):
    return st.lists(item, min_size=1, max_size=4).map(torch.tensor)


@pytest.fixture(scope="module")
def towers():
    return {
        "lfm3_vl_vision": shrunk.model("lfm3_vl_vision", "Lfm3VlVisionModel"),
        "hunyuan_vl_vision": shrunk.model("hunyuan_vl_vision", "HunYuanVLVisionTransformer"),
    }


@settings(max_examples=10)
@given(grid=grids(video))
def test_the_convolution_of_lfm3_is_that_of_each_frame(towers, grid):
    layer = next(each.conv for each in towers["lfm3_vl_vision"].layers if not each.is_attention_layer)
    states = torch.randn(int(grid.prod(-1).sum()), layer.in_proj.in_features)
    with torch.no_grad():
        convolved = grid_convolutions.lfm3_vl_convolution(layer, states, grid)
        torch.testing.assert_close(convolved, layer(states, grid.tolist()))


@settings(max_examples=10)
@given(grid=grids(image))
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
@given(grid=grids(image))
def test_the_embeddings_of_hunyuan_are_those_of_each_image(towers, grid):
    embeddings = towers["hunyuan_vl_vision"].embeddings
    pixels = torch.randn(int(grid.prod(-1).sum()), embeddings.patch_embedding.weight[0].numel())
    with torch.no_grad():
        ours = grid_convolutions._hunyuan_embeddings(embeddings, pixels, grid)
        torch.testing.assert_close(ours, embeddings(pixels, grid)[0], atol=1e-5, rtol=1e-5)

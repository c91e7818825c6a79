"""Features of images in tiles, and of whole images in one row, are those that transformers computes one by one."""

import every_head
import every_part
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.models.llava_next import modeling_llava_next

from onnxfn.architectures.patches import tiles
from onnxfn.architectures.patches.tiles import pixtral_states, whole_image_features

TASK = "image-text-to-text-with-past"
RESOLUTIONS = [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]

sizes = st.lists(st.tuples(st.integers(16, 2000), st.integers(16, 2000)), min_size=1, max_size=4).map(torch.tensor)


@given(sizes)
def test_each_image_has_the_tiles_that_lose_the_fewest_pixels(sizes):
    expected = [modeling_llava_next.get_anyres_image_grid_shape(size, RESOLUTIONS, 336) for size in sizes]
    assert tiles.best_grids(sizes, RESOLUTIONS, 336).tolist() == [list(grid) for grid in expected]


@given(sizes, st.tuples(st.integers(1, 6), st.integers(1, 6)))
def test_padding_is_left_out_where_transformers_does(sizes, grid):
    whole = torch.tensor(grid) * 24
    places = torch.arange(int(whole.prod())).reshape(1, *whole.tolist())
    areas = tiles.unpadded_areas(sizes, whole.expand(len(sizes), 2))
    for index, size in enumerate(sizes):
        top, left, height, width = (int(each[index]) for each in (areas.top, areas.left, areas.height, areas.width))
        expected = modeling_llava_next.unpad_image(places, size)
        assert torch.equal(places[:, top : top + height, left : left + width], expected)


@pytest.mark.parametrize(
    ("model_type", "changes"),
    [
        ("llava_next", {}),
        ("llava_next_video", {}),
        ("llava_onevision", {}),
        ("llava_onevision", {"vision_aspect_ratio": "anyres_max_1"}),
    ],
)
def test_rows_are_those_of_the_loops(model_type, changes):
    model = every_part.tiny_model(model_type, TASK).model
    for name, value in changes.items():
        setattr(model.config, name, value)
    random = torch.Generator().manual_seed(0)
    for _ in range(5):
        pixels = torch.randn((3, 6, 3, 64, 64), generator=random)
        sizes = torch.randint(16, 300, (3, 2), generator=random)
        with torch.no_grad():
            expected = torch.cat([*model.get_image_features(pixels, sizes, return_dict=True).pooler_output])
            actual = tiles.tiled_features(model, pixels, sizes).pooler_output
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


def test_images_without_tiles_have_a_new_line_each():
    """As LLaVA-OneVision's processor gives several images of one text."""
    model = every_part.tiny_model("llava_onevision", TASK).model
    pixels = torch.randn((3, 1, 3, 64, 64), generator=torch.Generator().manual_seed(0))
    sizes = torch.tensor([[40, 90], [64, 64], [200, 30]])
    with torch.no_grad():
        of_loops = model.get_image_features(pixels, sizes, batch_num_images=torch.tensor([3]), return_dict=True)
        actual = tiles.tiled_features(model, pixels, sizes).pooler_output
    torch.testing.assert_close(actual, torch.cat([*of_loops.pooler_output]), rtol=1e-5, atol=1e-5)


# The features of all images in one row


def pixels(model, *shape):
    side = model.config.patch_size
    return torch.randn(shape[0], 3, shape[1] * side, shape[2] * side), side


@pytest.mark.parametrize("shape", [(1, 2, 2), (2, 3, 5), (3, 1, 4)])
def test_pixtral_of_whole_images_equals_the_original(shape):
    model = every_head.tiny_model("pixtral", "feature-extraction")
    images, _ = pixels(model, *shape)
    with torch.no_grad():
        expected = model(images, output_hidden_states=True)
        actual = pixtral_states(model, images, output_hidden_states=True)
    torch.testing.assert_close(actual.last_hidden_state, expected.last_hidden_state)
    assert len(actual.hidden_states) == len(expected.hidden_states) > 1
    torch.testing.assert_close(actual.hidden_states, expected.hidden_states)


def test_pixtral_cuts_each_image_to_its_size():
    model = every_head.tiny_model("pixtral", "feature-extraction")
    images, side = pixels(model, 2, 3, 5)
    sizes = torch.tensor([[3 * side, 2 * side], [side, 5 * side]])
    with torch.no_grad():
        expected = model(images, sizes).last_hidden_state
        actual = pixtral_states(model, images, sizes).last_hidden_state
    assert actual.shape[1] == 3 * 2 + 5
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("model_type", ["step3p7", "deepseek_ocr2"])
def test_features_of_whole_images_equal_the_original(model_type, count):
    model = every_part.tiny_model(model_type, "image-text-to-text").model
    vision = model.config.vision_config
    side = getattr(vision, "sam_config", vision).image_size
    images = torch.randn(count, 3, side, side)
    with torch.no_grad():
        expected = torch.cat(model.get_image_features(images).pooler_output)
        (actual,) = whole_image_features(model, images).pooler_output
    torch.testing.assert_close(actual, expected)


def test_local_views_that_no_graph_takes_are_named():
    with pytest.raises(ValueError, match="num_local_patches"):
        whole_image_features(None, torch.zeros(1), num_local_patches=[1])

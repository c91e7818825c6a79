"""The features of all images in one row: each patch equals what it replaces."""

import every_head
import pytest
import torch

from onnxfn.architectures.patches.tiles import pixtral_states, step3p7_features


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
def test_step3p7_of_whole_images_equals_the_original(count):
    model = every_head.tiny_model("step3p7", "feature-extraction")
    side = model.config.vision_config.image_size
    images = torch.randn(count, 3, side, side)
    with torch.no_grad():
        expected = torch.cat(model.get_image_features(images).pooler_output)
        (actual,) = step3p7_features(model, images).pooler_output
    torch.testing.assert_close(actual, expected)


def test_step3p7_names_the_local_views_that_no_graph_takes():
    with pytest.raises(ValueError, match="num_local_patches"):
        step3p7_features(None, torch.zeros(1), num_local_patches=[1])

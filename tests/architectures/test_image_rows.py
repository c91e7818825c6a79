"""The features of whole images in one row, without their local views."""

import every_head
import pytest
import torch

from onnxfn.architectures.patches.tiles import step3p7_features


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

"""Branches on the size of an image, replaced: the same numbers as the originals', at sizes of every remainder."""

from __future__ import annotations

import pytest

from onnxfn.architectures.patches import image_padding, position_embeddings


@pytest.mark.parametrize("module", ["mobilenet_v1", "mobilenet_v2"])
def test_padding_as_in_tensorflow_is_the_models_own(module):
    import torch
    from transformers.models.mobilenet_v1 import modeling_mobilenet_v1
    from transformers.models.mobilenet_v2 import modeling_mobilenet_v2

    models = {"mobilenet_v1": modeling_mobilenet_v1, "mobilenet_v2": modeling_mobilenet_v2}
    for kernel, stride in ((1, 1), (3, 1), (3, 2), (5, 2)):
        convolution = torch.nn.Conv2d(2, 2, kernel, stride)
        for height, width in ((7, 8), (8, 9), (9, 7)):
            image = torch.randn(1, 2, height, width)
            assert torch.equal(
                image_padding.padded_as_tensorflow(image, convolution),
                models[module].apply_tf_padding(image, convolution),
            )


@pytest.mark.parametrize(("height", "width"), [(24, 24), (40, 32), (25, 47)])
def test_places_are_spread_as_dinov2_spreads_them(height, width):
    import tiny
    import torch

    embeddings = tiny.model("dinov2").embeddings
    tokens = torch.zeros(1, (height // 8) * (width // 8) + 1, 32)
    own = embeddings.interpolate_pos_encoding(tokens, height, width)
    assert torch.allclose(position_embeddings.interpolated_bicubic(embeddings, tokens, height, width), own, atol=1e-6)


@pytest.mark.parametrize(("height", "width"), [(16, 16), (17, 15), (13, 30)])
def test_windows_are_filled_as_swin2sr_and_focalnet_fill_them(height, width):
    import tiny
    import torch

    image = torch.randn(2, 3, height, width)
    swin = tiny.model("swin2sr")
    assert torch.allclose(image_padding.padded_to_windows(swin, image), swin.pad_and_normalize(image))
    focal = tiny.model("focalnet").embeddings.patch_embeddings
    assert torch.equal(
        image_padding.padded_to_patches(focal, image, height, width), focal.maybe_pad(image, height, width)
    )

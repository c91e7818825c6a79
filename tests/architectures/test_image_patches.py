"""Patches for images of any size compute what the originals compute, at sizes of every remainder."""

import pytest
import tiny
import torch

from onnxfn.architectures.patches import image_padding, image_sizes
from onnxfn.architectures.patches.image_sizes import unit_steps


@pytest.mark.parametrize("module", ["mobilenet_v1", "mobilenet_v2"])
def test_padding_as_in_tensorflow_equals_the_models(module):
    from transformers.models.mobilenet_v1 import modeling_mobilenet_v1
    from transformers.models.mobilenet_v2 import modeling_mobilenet_v2

    models = {"mobilenet_v1": modeling_mobilenet_v1, "mobilenet_v2": modeling_mobilenet_v2}
    for kernel, stride in ((1, 1), (3, 1), (3, 2), (5, 2)):
        convolution = torch.nn.Conv2d(2, 2, kernel, stride)
        for height, width in ((7, 8), (8, 9), (9, 7)):
            image = torch.randn(1, 2, height, width)
            expected = models[module].apply_tf_padding(image, convolution)
            assert torch.equal(image_padding.padded_as_tensorflow(image, convolution), expected)


@pytest.mark.parametrize(("height", "width"), [(24, 24), (40, 32), (25, 47)])
def test_interpolated_position_embeddings_equal_dinov2s(height, width):
    embeddings = tiny.model("dinov2").embeddings
    tokens = torch.zeros(1, (height // 8) * (width // 8) + 1, 32)
    expected = embeddings.interpolate_pos_encoding(tokens, height, width)
    assert torch.allclose(image_sizes.interpolated_bicubic(embeddings, tokens, height, width), expected, atol=1e-6)


@pytest.mark.parametrize(("height", "width"), [(16, 16), (17, 15), (13, 30)])
def test_padding_to_patches_equals_focalnets(height, width):
    image = torch.randn(2, 3, height, width)
    focalnet = tiny.model("focalnet").embeddings.patch_embeddings
    padded = image_padding.padded_to_patches(focalnet, image, height, width)
    assert torch.equal(padded, focalnet.maybe_pad(image, height, width))


@pytest.mark.parametrize(("height", "width"), [(16, 16), (17, 15), (13, 30)])
@pytest.mark.parametrize("kind", ["swin", "maskformer-swin"])
def test_padding_of_swin_equals_the_models(kind, height, width):
    swin = tiny.model(kind)
    image, states = torch.randn(2, 3, height, width), torch.randn(2, height, width, 5)
    embeddings, stage = swin.embeddings.patch_embeddings, swin.encoder.layers[0]
    patches = image_padding.padded_to_patches(embeddings, image, height, width)
    assert torch.equal(patches, embeddings.maybe_pad(image, height, width))
    even = image_padding.padded_to_even(stage.downsample, states, height, width)
    assert torch.equal(even, stage.downsample.maybe_pad(states, height, width))
    layer = stage.blocks[0]
    windows, _ = image_padding.padded_to_layer_windows(layer, states, height, width)
    assert torch.equal(windows, layer.maybe_pad(states, height, width)[0])


# The replacement of torch.linspace

DYNAMIC = ({0: torch.export.Dim.DYNAMIC},)
CALLS = {
    "centers of pixels": (lambda size: (0.5, size - 0.5, size), 0),
    "corners of pixels": (lambda size: (0, size - 1, size), 0),
    "coordinates": (lambda size: (-1.0, 1.0, size), 1),
    "a length by another number of steps": (lambda size: (0.5, size - 0.5, 2 * size), 1),
}
"""Calls of linspace for a size, and the number of products in their graph."""


@pytest.mark.parametrize(("start", "end", "steps"), [(0.0, 10.0, 3), (0, 4, 5), (3.0, -1.0, 4), (2.0, 7.0, 1)])
def test_numbers_are_those_of_linspace(start, end, steps):
    torch.testing.assert_close(unit_steps(start, end, steps), torch.linspace(start, end, steps))
    half = {"dtype": torch.float64, "device": "cpu"}
    torch.testing.assert_close(unit_steps(start, end, steps, **half), torch.linspace(start, end, steps, **half))


@pytest.mark.parametrize(("arguments", "products"), CALLS.values(), ids=[*CALLS])
def test_a_trace_gives_those_of_other_sizes(arguments, products):
    class Steps(torch.nn.Module):
        def forward(self, x):
            return unit_steps(*arguments(x.shape[0])) + x[0]

    program = torch.export.export(Steps(), (torch.zeros(5),), dynamic_shapes=DYNAMIC, strict=False)
    assert sum(node.target is torch.ops.aten.mul.Tensor for node in program.graph.nodes) == products
    for size in (2, 5, 9):
        torch.testing.assert_close(program.module()(torch.zeros(size)), torch.linspace(*arguments(size)))

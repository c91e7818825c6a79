"""Keypoint models with any number of keypoints: none, some in one image of a batch only, more than the maximum."""

import pytest
import tiny
import torch
from refusals import refusal
from sizes import SHARED

import onnxfn
from onnxfn.models.forward import torch_outputs
from onnxfn.run.sessions import open_check_session
from onnxfn.specs.errors import InvalidSpec

MAX_KEYPOINTS = 60
STRICT = {**SHARED["paired"]["keypoint_detector_config"], "keypoint_threshold": 0.15}
"""A detector that finds no keypoints in an empty image, also not at its borders."""


def noise(*shape, empty=()):
    """Images of noise. Those at the indices `empty` are 0."""
    images = torch.randn(shape, generator=torch.Generator().manual_seed(5))
    for index in empty:
        images[index] = 0
    return images.numpy()


def keypoint_counts(model, result, folder, images):
    """The number of keypoints of each image, after a check that the file and PyTorch agree on these images."""
    part = result.plan.parts[0]
    names = [output.name for output in part.spec.outputs]
    expected = torch_outputs(model, part, {"pixel_values": images})
    actual = open_check_session(folder / "model.onnx").run(names, {"pixel_values": images})
    for name, from_onnx, from_torch in zip(names, actual, expected, strict=True):
        assert from_onnx.shape == from_torch.shape, name
        assert abs(from_onnx - from_torch).max(initial=0) < 1e-4, name
    return actual[names.index("mask")].sum(-1).tolist()


@pytest.fixture(scope="module")
def superpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("superpoint") / "out"
    model = tiny.model("superpoint", "AutoModelForKeypointDetection", max_keypoints=MAX_KEYPOINTS)
    return model, onnxfn.export(onnxfn.spec_for("superpoint", "keypoint-detection"), model, folder), folder


def test_a_batch_mixes_images_with_the_maximum_of_keypoints_and_images_with_fewer(superpoint):
    counts = keypoint_counts(*superpoint, noise(3, 3, 72, 64, empty=[(1, slice(None), slice(32, None))]))
    assert counts[0] == counts[2] == MAX_KEYPOINTS
    assert 0 < counts[1] < MAX_KEYPOINTS


def test_an_image_of_a_batch_without_keypoints(superpoint):
    counts = keypoint_counts(*superpoint, noise(3, 3, 64, 48, empty=[0]))
    assert counts[0] == 0 < min(counts[1:])


def test_a_batch_without_keypoints(superpoint):
    assert keypoint_counts(*superpoint, noise(2, 3, 64, 48, empty=[0, 1])) == [0, 0]


@pytest.fixture(scope="module")
def superglue(tmp_path_factory):
    folder = tmp_path_factory.mktemp("superglue") / "out"
    model = tiny.model("superglue", "AutoModelForKeypointMatching", keypoint_detector_config=STRICT)
    return model, onnxfn.export(onnxfn.spec_for("superglue", "keypoint-matching"), model, folder), folder


def test_one_image_of_a_pair_without_keypoints(superglue):
    counts = keypoint_counts(*superglue, noise(2, 2, 3, 64, 48, empty=[(0, 1)]))
    assert counts[0][1] == 0 < min(counts[0][0], *counts[1])


def test_pairs_without_keypoints(superglue):
    assert keypoint_counts(*superglue, noise(2, 2, 3, 64, 48, empty=[0, 1])) == [[0, 0], [0, 0]]


def test_a_matcher_that_stops_early_is_refused_with_the_options_to_set(tmp_path):
    model = tiny.model("lightglue", "AutoModelForKeypointMatching", depth_confidence=0.95, width_confidence=0.99)
    spec = onnxfn.spec_for("lightglue", "keypoint-matching")
    assert refusal(InvalidSpec, onnxfn.export, spec, model, tmp_path / "out") == (
        "LightGlueForKeypointMatching stops early and prunes keypoints depending on the images "
        "(depth_confidence=0.95, width_confidence=0.99), and a graph runs all layers on all keypoints; "
        "switch both off: from_pretrained(..., depth_confidence=-1.0, width_confidence=-1.0), "
        "or the same values in config.json"
    )

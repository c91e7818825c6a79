"""Keypoint models with any number of keypoints: none, some in one image of a batch only, more than the maximum."""

from functools import cache

import numpy as np
import pytest
import tiny
import torch
from refusals import refusal
from sizes import SHARED

import onnxfn
from onnxfn.models.forward import torch_outputs
from onnxfn.run.sessions import open_check_session

MAX_KEYPOINTS = 60
STRICT = {**SHARED["paired"]["keypoint_detector_config"], "keypoint_threshold": 0.15}
"""A detector that finds no keypoints in an empty image, also not at its borders."""


def noise(*shape, empty=()):
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


MODELS = {
    "superpoint": ("keypoint-detection", "AutoModelForKeypointDetection", {"max_keypoints": MAX_KEYPOINTS}),
    "superglue": ("keypoint-matching", "AutoModelForKeypointMatching", {"keypoint_detector_config": STRICT}),
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    @cache
    def export(name):
        task, loader, options = MODELS[name]
        model, folder = tiny.model(name, loader, **options), tmp_path_factory.mktemp(name) / "out"
        return model, onnxfn.export(onnxfn.spec_for(name, task), model, folder), folder

    return export


def test_a_batch_mixes_images_with_the_maximum_of_keypoints_and_images_with_fewer(exported):
    counts = keypoint_counts(*exported("superpoint"), noise(3, 3, 72, 64, empty=[(1, slice(None), slice(32, None))]))
    assert counts[0] == counts[2] == MAX_KEYPOINTS
    assert 0 < counts[1] < MAX_KEYPOINTS


@pytest.mark.parametrize(
    ("name", "shape", "empty"),
    [
        ("superpoint", (3, 3, 64, 48), [0]),
        ("superpoint", (2, 3, 64, 48), [0, 1]),
        ("superglue", (2, 2, 3, 64, 48), [(0, 1)]),
        ("superglue", (2, 2, 3, 64, 48), [0, 1]),
    ],
)
def test_images_without_keypoints_have_none_and_the_others_of_a_batch_or_pair_have_some(exported, name, shape, empty):
    counts = keypoint_counts(*exported(name), noise(*shape, empty=empty))
    is_empty = np.zeros(shape[:-3], bool)
    for index in empty:
        is_empty[index] = True
    assert ((np.array(counts) == 0) == is_empty).all()


def test_a_matcher_that_stops_early_is_refused_with_the_options_to_set(tmp_path):
    model = tiny.model("lightglue", "AutoModelForKeypointMatching", depth_confidence=0.95, width_confidence=0.99)
    spec = onnxfn.spec_for("lightglue", "keypoint-matching")
    assert refusal(onnxfn.InvalidSpec, onnxfn.export, spec, model, tmp_path / "out") == (
        "LightGlueForKeypointMatching stops early and prunes keypoints depending on the images "
        "(depth_confidence=0.95, width_confidence=0.99), and a graph runs all layers on all keypoints; "
        "switch both off: from_pretrained(..., depth_confidence=-1.0, width_confidence=-1.0), "
        "or the same values in config.json"
    )

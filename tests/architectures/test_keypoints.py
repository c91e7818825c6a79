"""As many keypoints as there are: none, some in one image of a batch and none in another, more than are allowed."""

from __future__ import annotations

import pytest
import tiny
import torch
from refusals import refusal
from sizes.detection import PAIRED

import onnxfn
from onnxfn.check.sessions import open_check_session
from onnxfn.graphs.capture.forward import torch_outputs
from onnxfn.specs.errors import InvalidSpec

MOST = 60
STRICT = {**PAIRED["keypoint_detector_config"], "keypoint_threshold": 0.15}
"""A detector to whom an empty image has no keypoints, not at its borders either."""


def noise(*shape, blank=()):
    """Images of noise, some of them empty."""
    made = torch.randn(shape, generator=torch.Generator().manual_seed(5))
    for place in blank:
        made[place] = 0
    return made.numpy()


def agrees(model, result, folder, images):
    """Whether a file gives what PyTorch gives for these images, and how many keypoints each has."""
    part = result.plan.parts[0]
    wanted = torch_outputs(model, part, {"pixel_values": images})
    got = open_check_session(folder / "model.onnx").run(
        [one.name for one in part.spec.outputs], {"pixel_values": images}
    )
    for one, answer, truth in zip(part.spec.outputs, got, wanted, strict=True):
        assert answer.shape == truth.shape, one.name
        assert abs(answer - truth).max(initial=0) < 1e-4, one.name
    masks = [one.name for one in part.spec.outputs].index("mask")
    return got[masks].sum(-1).tolist()


@pytest.fixture(scope="module")
def superpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("superpoint") / "out"
    model = tiny.model("superpoint", "AutoModelForKeypointDetection", max_keypoints=MOST)
    return model, onnxfn.export(onnxfn.spec_for("superpoint", "keypoint-detection"), model, folder), folder


def test_images_with_more_keypoints_than_allowed_stand_beside_such_with_fewer(superpoint):
    counts = agrees(*superpoint, noise(3, 3, 72, 64, blank=[(1, slice(None), slice(32, None))]))
    assert counts[0] == counts[2] == MOST
    assert 0 < counts[1] < MOST


def test_a_batch_may_have_images_without_keypoints(superpoint):
    counts = agrees(*superpoint, noise(3, 3, 64, 48, blank=[0]))
    assert counts[0] == 0 < min(counts[1:])


def test_there_may_be_no_keypoints_at_all(superpoint):
    assert agrees(*superpoint, noise(2, 3, 64, 48, blank=[0, 1])) == [0, 0]


@pytest.fixture(scope="module")
def superglue(tmp_path_factory):
    folder = tmp_path_factory.mktemp("superglue") / "out"
    model = tiny.model("superglue", "AutoModelForKeypointMatching", keypoint_detector_config=STRICT)
    return model, onnxfn.export(onnxfn.spec_for("superglue", "keypoint-matching"), model, folder), folder


def test_one_image_of_a_pair_may_have_no_keypoints(superglue):
    counts = agrees(*superglue, noise(2, 2, 3, 64, 48, blank=[(0, 1)]))
    assert counts[0][1] == 0 < min(counts[0][0], *counts[1])


def test_no_image_of_any_pair_may_have_keypoints(superglue):
    assert agrees(*superglue, noise(2, 2, 3, 64, 48, blank=[0, 1])) == [[0, 0], [0, 0]]


def test_a_matcher_that_stops_early_is_refused_and_told_how_to_be_taken(tmp_path):
    model = tiny.model("lightglue", "AutoModelForKeypointMatching", depth_confidence=0.95, width_confidence=0.99)
    spec = onnxfn.spec_for("lightglue", "keypoint-matching")
    told = refusal(InvalidSpec, onnxfn.export, spec, model, tmp_path / "out")
    assert "depth_confidence=0.95, width_confidence=0.99" in told
    assert "from_pretrained(..., depth_confidence=-1.0, width_confidence=-1.0)" in told

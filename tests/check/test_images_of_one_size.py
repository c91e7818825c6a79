"""A model that computes other functions for images of other sizes is exported for images of one size."""

import pytest
import torch
from vector_specs import image_spec

import onnxfn
from onnxfn import gives, with_shapes
from onnxfn.specs.errors import CaptureFailed
from onnxfn.specs.stored.reports import CheckFailed

SPEC = image_spec(gives("features", "batch_size ((height+7)//8)*((width+7)//8) _", path=(0,)), traced=(96, 64))


class Patches(torch.nn.Module):
    """Features of patches of 8 by 8 pixels.

    Args:
        enlarge: From an image to one whose sides are multiples of 8.
    """

    def __init__(self, enlarge):
        super().__init__()
        self.linear = torch.nn.Linear(3 * 64, 5)
        self.enlarge = enlarge

    def forward(self, pixel_values):
        images = self.enlarge(pixel_values)
        batch, channels, height, width = images.shape
        patches = images.reshape(batch, channels, height // 8, 8, width // 8, 8).permute(0, 2, 4, 1, 3, 5)
        return self.linear(patches.reshape(batch, -1, 3 * 64))


def multiples(images):
    return [(size + 7) // 8 * 8 for size in images.shape[2:]]


def resized(images):
    return torch.nn.functional.interpolate(images, size=multiples(images), mode="bilinear")


def axes(planned):
    return planned.parts[0].inputs["pixel_values"]


def test_a_model_that_resizes_some_images_alone_is_traced_with_one_that_it_resizes(tmp_path):
    model = Patches(lambda images: images if multiples(images) == list(images.shape[2:]) else resized(images))
    spec = onnxfn.with_tolerance(SPEC, atol=1e-3)  # interpolation rounds more in larger images
    exported = onnxfn.export(spec, model, tmp_path / "model.onnx")
    assert axes(exported.plan) == {0: "batch_size", 2: "height", 3: "width"}
    assert exported.limits == ()
    assert exported.report.passed
    assert onnxfn.validate(spec, model, tmp_path / "model.onnx").passed
    assert onnxfn.validate(spec, model, exported).passed


def test_a_model_that_resizes_all_images_is_exported_for_all_sizes(tmp_path):
    exported = onnxfn.export(SPEC, Patches(resized), tmp_path / "model.onnx")
    assert axes(exported.plan) == {0: "batch_size", 2: "height", 3: "width"}


class Untraceable(Patches):
    """Patches of images whose height is a number: torch cannot trace it at a dynamic height."""

    def forward(self, pixel_values):
        if not isinstance(pixel_values.shape[2], int):
            raise NotImplementedError("a height that torch cannot solve")
        return super().forward(pixel_values)


def test_a_model_that_torch_traces_at_one_size_alone_is_exported_for_it(tmp_path):
    model = Untraceable(resized)
    exported = onnxfn.export(SPEC, model, tmp_path / "model.onnx")
    assert axes(exported.plan) == {0: "batch_size"}
    assert exported.report.passed
    assert onnxfn.validate(SPEC, model, tmp_path / "model.onnx").passed
    with pytest.raises(CheckFailed, match="height=96"):
        onnxfn.validate(with_shapes(SPEC, height=(32, 96)), Patches(resized), tmp_path / "model.onnx")


def test_a_range_of_sizes_that_is_asked_for_is_no_single_size(tmp_path):
    with pytest.raises(CaptureFailed, match="a height that torch cannot solve"):
        onnxfn.export(with_shapes(SPEC, height=(32, 96)), Untraceable(resized), tmp_path / "model.onnx")


def test_a_graph_that_is_wrong_for_that_size_too_stays_an_error(tmp_path, monkeypatch):
    def with_subtractions(graph, _):
        for node in graph.graph:
            node.op_type = "Sub" if node.op_type == "Add" else node.op_type
        return graph

    monkeypatch.setattr("onnxfn.graphs.traced_graphs.share_size_reads", with_subtractions)
    with pytest.raises(CheckFailed):
        onnxfn.export(SPEC, Patches(resized), tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()

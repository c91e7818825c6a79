"""Cases of the check are moved to images that the model can take, before anything is traced."""

import re
from math import prod
from pathlib import Path

import pytest
import tiny
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from sizes import SPECIAL
from small_modules import module
from vector_specs import image_spec

import onnxfn
from onnxfn import CaptureFailed, CheckFailed, UnknownName, compose, gives, sized, takes, with_shapes
from onnxfn.architectures.families.detection import images_without_cases
from onnxfn.architectures.families.vision import fixed_images
from onnxfn.check.cases.references import check_cases
from onnxfn.check.cases.runnable_sizes import runnable_limits
from onnxfn.export.run.runnable_images import with_runnable_images
from onnxfn.graphs.capture.trace_conditions import at_other_sizes
from onnxfn.specs.algebra.dummies import dummies, known_sizes
from onnxfn.specs.conditions import Condition, range_of
from onnxfn.specs.plan.check_cases import cases, in_case
from onnxfn.specs.plan.planning import plan
from onnxfn.weights.onnx_files import metadata


def picker(count):
    return module(
        lambda self, pixel_values: self.convolution(pixel_values).flatten(2).topk(count, dim=-1).values,
        convolution=torch.nn.Conv2d(3, 4, 8, 8),
    )


def grid():
    return module(
        lambda self, pixel_values: (self.convolution(pixel_values) + self.positions).flatten(2),
        convolution=torch.nn.Conv2d(3, 4, 8, 8),
        positions=torch.nn.Parameter(torch.randn(1, 4, 8, 8)),
    )


def spec(*more):
    return image_spec(gives("best", "batch_size _ _", path=(0,)), *more)


def image_sizes(part):
    sizes = [known_sizes(each, {}) for each in (part.spec, *(in_case(part.spec, case) for case in cases(part.spec)))]
    return [(each["height"], each["width"]) for each in sizes]


def runnable(model, planned):
    return with_runnable_images(model, planned).parts[0]


side = st.integers(1, 200)


@given(side, side, st.integers(1, 16), st.integers(1, 15))
def test_the_least_sizes_run_and_those_an_eighth_of_the_trace_smaller_do_not(height, width, step, share):
    base = {"height": height * step, "width": width * step}

    def runs(tried):
        is_large = 16 * prod(tried.values()) > share * prod(base.values())
        return is_large and all(size % step == 0 for size in tried.values())

    limits = runnable_limits(base, runs)
    assert step == 1 or [each.text for each in limits[:2]] == [f"{name} % {step} == 0" for name in base]
    least = {name: range_of(limits, name)[0] for name in base}
    assume(all(least.values()))  # else the smallest size of one runs, with the other's of the trace
    assert runs(least)
    smaller = {name: size - base[name] // 8 // step * step - 2 * step for name, size in least.items()}
    assert min(smaller.values()) <= 0 or not runs(smaller)


def test_cases_are_moved_to_images_with_as_many_positions_as_the_model_picks():
    part = runnable(picker(110), plan(spec(), {}))
    assert image_sizes(part) == [(92, 92), (92, 138), (92, 126)]
    assert [limit.text for limit in part.spec.limits] == ["height >= 92", "width >= 92"]


@pytest.mark.parametrize(
    ("model", "edited"),
    [
        (picker(3), spec()),
        (grid(), with_shapes(spec(), height=64, width=64)),
        (grid(), spec(takes("other", "batch_size 1", "normal", kind="float"))),
    ],
    ids=["all cases run", "images of a fixed size", "a fault that is not of the size"],
)
def test_a_plan_stays(model, edited):
    """Also where the trace fails: it names the fault."""
    planned = plan(edited, {})
    assert with_runnable_images(model, planned) == planned


def test_a_case_is_never_moved_to_the_size_of_the_trace():
    traced, *others = image_sizes(runnable(picker(100), plan(spec(sized(height=73, width=109)), {})))
    assert traced == (73, 109)
    assert traced not in others


def test_the_smallest_size_is_in_the_limits_and_in_the_file(tmp_path):
    exported = onnxfn.export(spec(), picker(110), tmp_path / "model.onnx")
    assert list(map(str, exported.limits)) == ["height >= 92", "width >= 92"]
    assert metadata(Path(exported.files[0]))["onnxfn.limits"] == "height >= 92; width >= 92"
    sizes = [re.findall(r"height=(\d+), width=(\d+)", case) for case in exported.report.cases]
    assert sizes == [[("92", "138")], [("92", "126")]]
    assert onnxfn.validate(spec(), picker(110), tmp_path / "model.onnx").cases == exported.report.cases


def test_a_model_for_images_of_one_size_has_that_size_in_the_graph_and_any_batch(tmp_path):
    model = grid()
    exported = onnxfn.export(spec(), model, tmp_path / "model.onnx")
    assert exported.inputs == {"pixel_values": {0: "batch_size"}}
    assert list(map(str, exported.limits)) == ["height == 64", "width == 64"]
    assert metadata(Path(exported.files[0]))["onnxfn.limits"] == "height == 64; width == 64"
    sizes = [re.findall(r"batch_size=(\d+), height=(\d+), width=(\d+)", case) for case in exported.report.cases]
    assert sizes == [[("1", "64", "64")], [("3", "64", "64")]]
    assert onnxfn.validate(spec(), model, tmp_path / "model.onnx").passed


def runnable_detector(model_type, queries, **sizes):
    """The part of a detector that PyTorch runs in all cases of the check, with so many queries."""
    model = tiny.model(model_type, "AutoModelForObjectDetection", **sizes, num_queries=queries)
    part = runnable(model, plan(onnxfn.spec_for(model_type, "object-detection"), model.config))
    for case in cases(part.spec):
        pixels = torch.from_numpy(dummies(in_case(part.spec, case), {})["pixel_values"])
        with torch.no_grad():
            assert model(pixels).logits.shape[1] == queries
    return part


@pytest.mark.parametrize("model_type", ["rt_detr", "rt_detr_v2", "d_fine"])
def test_pytorch_runs_a_detector_with_300_queries_in_all_cases(model_type):
    sizes = image_sizes(runnable_detector(model_type, 300))
    assert all(height % 32 == width % 32 == 0 for height, width in sizes)
    assert all(height != width for height, width in sizes[1:])


@pytest.mark.parametrize(
    ("model_type", "unit", "windows"),
    [("lw_detr", 32, {"num_windows": 4}), ("lw_detr", 64, {"num_windows": 16}), ("rf_detr", 48, {"num_windows": 3})],
)
def test_images_have_as_many_patches_as_the_windows_of_a_detector_need(model_type, unit, windows):
    sizes = SPECIAL[model_type] | {"backbone_config": SPECIAL[model_type]["backbone_config"] | windows}
    sizes.pop("num_queries", None)
    part = runnable_detector(model_type, 30, **sizes)
    assert all(height % unit == width % unit == 0 for height, width in image_sizes(part))


def test_texts_are_at_most_as_long_as_the_file_says():
    part = plan(compose(onnxfn.text_encoder, onnxfn.bert_inputs), {"vocab_size": 99, "type_vocab_size": 2}).parts[0]
    every = check_cases(part, limits=[Condition("sequence_length <= 9")])
    lengths = [known_sizes(case.spec, {})["sequence_length"] for case in every]
    assert max(lengths) == 9
    assert min(lengths) < 9


@pytest.mark.parametrize("batch", [1, 2, 7])
def test_no_case_of_a_check_has_the_sizes_of_a_trace(batch):
    part = plan(
        compose(fixed_images, gives("features", "batch_size _"), sized(batch_size=batch)),
        {"num_channels": 3, "image_size": 8},
    ).parts[0]
    traced, tried = known_sizes(at_other_sizes(part).spec, {}), [each.spec for each in check_cases(part)]
    assert [known_sizes(spec, {})["batch_size"] for spec in tried] == [1, 2]
    assert traced["batch_size"] == (7 if batch == 7 else 5)


def test_an_export_copies_a_model_for_images_once_and_so_does_a_validation(tmp_path):
    copies, images = [], compose(images_without_cases, gives("features", "batch_size _ rows columns", path=(0,)))

    class Copied(torch.nn.Conv2d):
        def __reduce_ex__(self, protocol):
            copies.append(protocol)
            return super().__reduce_ex__(protocol)

        def forward(self, pixel_values):
            return super().forward(pixel_values)

    model = Copied(3, 4, 3)
    onnxfn.export(images, model, tmp_path / "model.onnx")
    assert len(copies) == 1
    assert onnxfn.validate(images, model, tmp_path / "model.onnx").passed
    assert len(copies) == 2


# Models that compute other functions for images of other sizes are exported for images of one size

SPEC = image_spec(gives("features", "batch_size ((height+7)//8)*((width+7)//8) _", path=(0,)), traced=(96, 64))


class Patches(torch.nn.Module):
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


LABELS, INTERPOLATED = "AutoModelForImageClassification", onnxfn.always(interpolate_pos_encoding=True)


def of_any_size(model_type, *more):
    row = onnxfn.spec_for(model_type)
    return onnxfn.for_task(compose(row, onnxfn.vision_of_any_size, *more), "image-classification")


@pytest.mark.parametrize(("tall", "wide"), [((32, 512),) * 2, ((32, 224),) * 2, ((16, 512), (32, 224))])
def test_a_range_is_had_where_the_model_branches_on_the_size_of_the_trace(tall, wide):
    """A ViT does not interpolate its positions at its own size, which is that of the first trace."""
    model, interpolated = tiny.model("vit", LABELS, image_size=224, patch_size=16), of_any_size("vit", INTERPOLATED)
    result = onnxfn.export(with_shapes(interpolated, height=tall, width=wide), model)
    assert result.inputs == {"pixel_values": {0: "batch_size", 2: "height", 3: "width"}}
    for height, width in [(224, 224), (tall[0], wide[1]), (47, 100)]:
        pixels = torch.randn(1, 3, height, width)
        with torch.no_grad():
            logits = model(pixels, interpolate_pos_encoding=True).logits
        torch.testing.assert_close(torch.tensor(result(pixel_values=pixels)["logits"]), logits, atol=1e-5, rtol=1e-4)


def test_a_range_that_a_model_does_not_take_is_refused_before_the_trace():
    model, stages = tiny.model("vit", LABELS), []
    side = model.config.image_size
    with pytest.raises(CaptureFailed, match=rf"takes only the size {side} of height, not 8 to 99; use "):
        asked = with_shapes(of_any_size("vit"), height=(8, 99), width=(8, 99))
        onnxfn.export(asked, model, on_event=lambda event: stages.append(event.stage))
    assert "capture" not in stages


@pytest.mark.parametrize("axis", ["height", "image_height"])
def test_an_axis_that_the_configuration_fixes_is_said_to_be_fixed(axis):
    model = tiny.model("vit", LABELS)
    with pytest.raises(UnknownName) as caught:
        onnxfn.plan(with_shapes(onnxfn.spec_for(model), **{axis: (8, 99)}), model.config)
    assert str(caught.value) == (
        f"no axis {axis!r} for vit; known: batch_size; the configuration fixes the axes with = of pixel_values "
        "[batch_size, num_channels=, image_height=, image_width=]: see onnxfn guide images"
    )

"""Plans have the files, names, order, axes and dummy shapes that Optimum declares, apart from listed corrections."""

from __future__ import annotations

import importlib
import re

import pytest
from corrections import (
    ABSENT_TENSORS,
    ADDED_INPUTS,
    CORRECTED_SIZES,
    CORRECTIONS,
    EXCLUDED,
    NEXT_TOKENS,
    REPEATED_PRESETS,
    VARIANTS,
    WITHOUT_MODEL,
)
from declarations import contract, exports

from onnxfn.architectures import ARCHITECTURES
from onnxfn.specs.dummies import dummies
from onnxfn.specs.plan.planning import plan
from onnxfn.specs.tasks import canonical, for_task, task_names

Axes = dict[str, dict[int, str]]
LIBRARIES_WITHOUT_CLASSES = ("timm", "diffusers")
"""Libraries whose configurations are the values themselves."""

INNER = "added_cond_kwargs."
"""The prefix of inputs inside a dict, which Optimum keeps in their names."""

TRANSFORMERS_CLASS = re.compile(r"transformers\.\w+")
REMOVED = {"mctct": {"input_feat_per_channel": 80, "conv_stride": [3]}}
"""Model types that transformers 5 no longer has, and the defaults of their configurations."""


def triples():
    """Every (model type, preset, task) that Optimum exports and that has a model."""
    excluded = {(record.model_type, task) for record in WITHOUT_MODEL for task in record.tasks} | EXCLUDED
    repeated = {(record.model_type, record.preset) for record in REPEATED_PRESETS}
    return [
        pytest.param(model_type, preset, task, id=f"{model_type}-{preset}-{task}")
        for model_type in contract()
        if model_type in ARCHITECTURES
        for preset in contract()[model_type]["configs"]
        for task in exports(model_type, preset)
        if (model_type, task) not in excluded and (model_type, preset) not in repeated
    ]


# Our side


def spec_of(model_type, task):
    """The spec of a task, or of `task@variant`."""
    task, _, variant = task.partition("@")
    spec = for_task(ARCHITECTURES[model_type], task)
    return VARIANTS[model_type, variant](spec) if variant else spec


def configuration(model_type, preset):
    """The configuration of transformers with the values of a preset, or the values where there is no class."""
    declared = contract()[model_type]["configs"][preset]
    name = declared["config_class"]
    if contract()[model_type]["library"] in LIBRARIES_WITHOUT_CLASSES and not TRANSFORMERS_CLASS.fullmatch(name):
        return declared["config_kwargs"]
    if model_type in REMOVED:
        return {**REMOVED[model_type], **declared["config_kwargs"]}
    module, _, name = name.rpartition(".")
    return getattr(importlib.import_module(module), name)(**declared["config_kwargs"])


# Optimum's side


def declared_task(model_type, preset, task):
    """What Optimum declares of the task that has this name here."""
    return contract()[model_type]["configs"][preset]["tasks"][exports(model_type, preset)[task][0]]


def declared_files(model_type, preset, task):
    """The files that Optimum writes by default, as (file, what it declares of the file)."""
    cases = declared_task(model_type, preset, task)["cases"]
    return [(file, cases[case]) for file, case in exports(model_type, preset)[task][1]]


def onnx_names(case, side, tensors):
    """Tensors by their names in ONNX; Optimum declares some by those of torch."""
    names = case.get(f"torch_to_onnx_{side}_map", {})
    return {names.get(name, name.removeprefix(INNER)): value for name, value in tensors.items()}


def without_absent(model_type, preset, task, tensors):
    """Tensors without those that no model has: ABSENT_TENSORS."""
    starts = [
        record.starts
        for record in ABSENT_TENSORS
        if (record.model_type, record.preset) == (model_type, preset) and task in (record.tasks or (task,))
    ]
    return {name: value for name, value in tensors.items() if not name.startswith(sum(starts, ()))}


def with_next_tokens(axes):
    """Axes in which the number of new tokens is dynamic: NEXT_TOKENS."""
    return {
        name: {
            int(axis): NEXT_TOKENS.ours if symbol == NEXT_TOKENS.optimum else symbol for axis, symbol in symbols.items()
        }
        for name, symbols in axes.items()
    }


def with_corrections(model_type, preset, task, axes: Axes) -> Axes:
    """Axes with the corrections of CORRECTIONS."""
    changed = {name: dict(symbols) for name, symbols in axes.items()}
    for correction in CORRECTIONS:
        fits = correction.task in (None, task) and correction.preset in (None, preset)
        for name in correction.tensors if fits and correction.model_type == model_type else ():
            if name in changed and changed[name].get(correction.axis) == correction.optimum:
                changed[name].pop(correction.axis, None)
                changed[name] |= {} if correction.ours is None else {correction.axis: correction.ours}
    return changed


def added_inputs(model_type, task) -> Axes:
    """The inputs that onnxfn adds: ADDED_INPUTS."""
    return {
        record.name: dict(enumerate(record.axes))
        for record in ADDED_INPUTS
        if model_type in record.model_types and task in record.tasks
    }


def expected_axes(model_type, preset, task, case, side) -> Axes:
    """The inputs or outputs of a file as Optimum declares them, with our corrections."""
    axes = with_next_tokens(onnx_names(case, side, case[f"{side}s"]))
    return with_corrections(model_type, preset, task, without_absent(model_type, preset, task, axes))


def expected_shapes(model_type, preset, task, case, inputs: Axes):
    """The shapes of the dummy inputs as Optimum declares them, with our corrections."""
    shapes = without_absent(model_type, preset, task, onnx_names(case, "input", case["dummy_shapes"]))
    changed = {name: list(shape) for name, shape in shapes.items()}
    for record in CORRECTED_SIZES:
        if (record.model_type, record.preset) == (model_type, preset):
            for name in (name for name in changed if name.endswith(record.endings)):
                if changed[name][record.axis] == record.optimum:
                    changed[name][record.axis] = record.ours
    for name, symbols in inputs.items():
        for axis in (axis for axis, symbol in symbols.items() if symbol == NEXT_TOKENS.ours and name in changed):
            changed[name][axis] = NEXT_TOKENS.size
    return changed


# Both sides


@pytest.mark.parametrize(("model_type", "preset", "task"), triples())
def test_a_plan_has_the_files_names_order_axes_and_dummy_shapes_of_optimum(model_type, preset, task):
    spec, config = spec_of(model_type, task), configuration(model_type, preset)
    planned = plan(spec, config, decoders="separate")
    declared = declared_files(model_type, preset, task)
    assert list(planned.files) == [file for file, _ in declared]
    for part, (_, case) in zip(planned.parts, declared, strict=True):
        assert_same_tensors(part, model_type, preset, task, case, added_inputs(model_type, task))
        shapes = expected_shapes(model_type, preset, task, case, part.inputs)
        arrays = dummies(part.spec, {})
        assert {name: list(arrays[name].shape) for name in shapes} == shapes
    if "merged" in declared_task(model_type, preset, task):
        assert_same_merged_decoder(plan(spec, config), model_type, preset, task)


def assert_same_tensors(part, model_type, preset, task, case, added):
    """A part has the inputs, outputs and axes of a case, in its order; the added inputs are last."""
    inputs = expected_axes(model_type, preset, task, case, "input")
    assert not inputs.keys() & added.keys()
    assert list(part.inputs.items()) == [*inputs.items(), *added.items()]
    outputs = expected_axes(model_type, preset, task, case, "output")
    assert list(part.outputs.items()) == list(outputs.items())


def assert_same_merged_decoder(planned, model_type, preset, task):
    """The merged decoder has the tensors of the case with past that Optimum merges."""
    declared = declared_task(model_type, preset, task)
    merged = declared["merged"]["default"]
    assert planned.files == ("encoder_model.onnx", merged["file"])
    assert_same_tensors(planned.parts[1], model_type, preset, task, declared["cases"][merged["cases"][1]], {})


def test_every_model_type_of_optimum_has_a_row():
    assert set(contract()) <= set(ARCHITECTURES)
    assert sum(len(declared["tasks"]) for declared in contract().values()) == 580


def test_a_row_has_the_tasks_of_optimum():
    for model_type in contract():
        excluded = {task for record in WITHOUT_MODEL if record.model_type == model_type for task in record.tasks}
        tasks = set(map(canonical, contract()[model_type]["tasks"])) - excluded
        assert tasks <= set(task_names(ARCHITECTURES[model_type])), model_type


# The corrections


@pytest.mark.parametrize("record", WITHOUT_MODEL, ids=lambda record: record.model_type)
def test_tasks_without_a_model_have_no_class(record):
    tasks = contract()[record.model_type]["configs"]["default"]["tasks"]
    assert {tasks[task]["model_class"] for task in record.tasks} == {None}
    assert not {*record.tasks} & {*task_names(ARCHITECTURES[record.model_type])}


def declared_cases(model_type):
    """All cases that Optimum declares of a model type."""
    presets = contract()[model_type]["configs"].values()
    return [case for preset in presets for task in preset["tasks"].values() for case in task["cases"].values()]


def test_a_correction_changes_an_axis_that_optimum_declares_and_has_a_reason():
    for correction in CORRECTIONS:
        assert correction.optimum != correction.ours, correction
        assert len(correction.why) > 20, correction
        tensors = [
            onnx_names(case, side, case[f"{side}s"]).get(name, {})
            for case in declared_cases(correction.model_type)
            for side in ("input", "output")
            for name in correction.tensors
        ]
        assert correction.optimum in {axes.get(str(correction.axis)) for axes in tensors if axes}, correction


@pytest.mark.parametrize("record", REPEATED_PRESETS, ids=lambda record: f"{record.model_type}-{record.preset}")
def test_a_repeated_preset_has_the_values_of_another_preset(record):
    presets = contract()[record.model_type]["configs"]
    assert presets[record.preset]["config_kwargs"] == presets[record.same_as]["config_kwargs"]


def test_a_corrected_size_is_a_size_that_optimum_declares():
    for record in CORRECTED_SIZES:
        tasks = contract()[record.model_type]["configs"][record.preset]["tasks"].values()
        cases = [case for task in tasks for case in task["cases"].values()]
        shapes = [onnx_names(case, "input", case["dummy_shapes"]) for case in cases]
        sizes = [
            shape[record.axis] for named in shapes for name, shape in named.items() if name.endswith(record.endings)
        ]
        assert record.optimum in sizes, record
        assert record.optimum != record.ours, record

"""Plans against what Optimum's own objects declare: same names, same order, same axes, corrections excepted."""

from __future__ import annotations

import importlib
import re

import pytest
from corrections import (
    CORRECTIONS,
    INPUTS_ADDED,
    NEVER_ASKED,
    NEVER_MADE,
    ONE_TOKEN,
    PRESETS_LEFT,
    SIZES_CORRECTED,
    TENSORS_DROPPED,
    VARIANTS,
)
from declarations import contract, exports

from onnxfn.architectures import ARCHITECTURES
from onnxfn.specs.dummies import dummies
from onnxfn.specs.plan.planning import plan
from onnxfn.specs.tasks import canonical, for_task, task_names

Axes = dict[str, dict[int, str]]
BY_HAND = ("timm", "diffusers")
INSIDE = "added_cond_kwargs."
CLASS = re.compile(r"transformers\.\w+")


def asked_for(model_type, task):
    """The spec of a task, or of a variant of it."""
    task, _, variant = task.partition("@")
    spec = for_task(ARCHITECTURES[model_type], task)
    return VARIANTS[model_type, variant](spec) if variant else spec


def pairs():
    """Every (model type, preset, task) of Optimum's table that it exports, and whose model type has a row here."""
    never = {(one.model_type, task) for one in NEVER_MADE for task in one.tasks} | NEVER_ASKED
    outdated = {(one.model_type, one.preset) for one in PRESETS_LEFT}
    return [
        pytest.param(model_type, preset, task, id=f"{model_type}-{preset}-{task}")
        for model_type in contract()
        if model_type in ARCHITECTURES
        for preset in contract()[model_type]["configs"]
        for task in exports(model_type, preset)
        if (model_type, task) not in never and (model_type, preset) not in outdated
    ]


GONE = {"mctct": {"input_feat_per_channel": 80, "conv_stride": [3]}}
"""What transformers 5 no longer has, and what its configuration said by default."""


def configuration(model_type, preset):
    """What a class of transformers makes of the values, or where the library is another's the values themselves."""
    told = contract()[model_type]["configs"][preset]
    if contract()[model_type]["library"] in BY_HAND and not CLASS.fullmatch(told["config_class"]):
        return told["config_kwargs"]
    if model_type in GONE:
        return {**GONE[model_type], **told["config_kwargs"]}
    module, _, name = told["config_class"].rpartition(".")
    return getattr(importlib.import_module(module), name)(**told["config_kwargs"])


def declared(axes) -> Axes:
    return {name: {int(index): symbol for index, symbol in one.items()} for name, one in axes.items()}


def corrected(model_type, preset, task, axes: Axes, added) -> Axes:
    """Optimum's tensors with our corrections."""
    made = {name: dict(one) for name, one in axes.items()}
    told = (one for one in CORRECTIONS if one.model_type == model_type)
    for correction in (one for one in told if one.task in (None, task) and one.preset in (None, preset)):
        for name in (name for name in correction.tensors if name in made):
            if made[name].get(correction.axis) == correction.optimum:
                made[name].pop(correction.axis, None)
                made[name] |= {} if correction.ours is None else {correction.axis: correction.ours}
    for addition in (one for one in added if model_type in one.model_types and task in one.tasks):
        assert addition.name not in made
        made[addition.name] = dict(enumerate(addition.axes))
    return made


def existing(model_type, preset, task, tensors):
    """Optimum's tensors without those that no model has."""
    starts = [
        one.starts
        for one in TENSORS_DROPPED
        if (one.model_type, one.preset) == (model_type, preset) and task in (one.tasks or (task,))
    ]
    return {name: one for name, one in tensors.items() if not name.startswith(sum(starts, ()))}


def resized(model_type, preset, task, shapes):
    """Optimum's shapes with our corrections."""
    made = {name: list(shape) for name, shape in existing(model_type, preset, task, shapes).items()}
    for one in (one for one in SIZES_CORRECTED if (one.model_type, one.preset) == (model_type, preset)):
        for name in (name for name in made if name.endswith(one.endings)):
            if made[name][one.axis] == one.optimum:
                made[name][one.axis] = one.ours
    return made


def moving(axes):
    """Optimum's axes, where one that it fixes at a token moves: see ONE_TOKEN."""
    return {
        name: {axis: ONE_TOKEN.ours if symbol == ONE_TOKEN.optimum else symbol for axis, symbol in one.items()}
        for name, one in axes.items()
    }


def longer(inputs, shapes):
    """Optimum's shapes, where a next text of one token is longer: see ONE_TOKEN."""
    moved = {name: [index for index, axis in one.items() if axis == ONE_TOKEN.ours] for name, one in inputs.items()}
    return {
        name: [ONE_TOKEN.size if index in moved.get(name, ()) else size for index, size in enumerate(shape)]
        for name, shape in shapes.items()
    }


def files(model_type, preset, task):
    """The files that Optimum writes by default: (file, what it declares of it)."""
    theirs, written = exports(model_type, preset)[task]
    cases = contract()[model_type]["configs"][preset]["tasks"][theirs]["cases"]
    return [(file, cases[case]) for file, case in written]


def called(case, side, axes):
    """Tensors by their names in ONNX, where Optimum declares them by those of torch."""
    names = case.get(f"torch_to_onnx_{side}_map", {})
    return {names.get(name, name.removeprefix(INSIDE)): one for name, one in axes.items()}


def told_tensors(model_type, preset, task, case, side, added) -> Axes:
    """What goes in or comes out, as Optimum declares it with our corrections."""
    axes = existing(model_type, preset, task, declared(moving(called(case, side, case[f"{side}s"]))))
    return corrected(model_type, preset, task, axes, added)


@pytest.mark.parametrize(("model_type", "preset", "task"), pairs())
def test_a_plan_has_optimums_files_names_order_and_axes(model_type, preset, task):
    made = plan(asked_for(model_type, task), configuration(model_type, preset), decoders="separate")
    told = files(model_type, preset, task)
    assert list(made.files) == [file for file, _ in told]
    for part, (_, case) in zip(made.parts, told, strict=True):
        inputs = told_tensors(model_type, preset, task, case, "input", INPUTS_ADDED)
        assert list(part.inputs.items()) == list(inputs.items())
        outputs = told_tensors(model_type, preset, task, case, "output", ())
        assert list(part.outputs.items()) == list(outputs.items())


@pytest.mark.parametrize(("model_type", "preset", "task"), pairs())
def test_dummy_inputs_have_optimums_shapes(model_type, preset, task):
    made = plan(asked_for(model_type, task), configuration(model_type, preset), decoders="separate")
    for part, (_, case) in zip(made.parts, files(model_type, preset, task), strict=True):
        shapes = longer(part.inputs, resized(model_type, preset, task, called(case, "input", case["dummy_shapes"])))
        arrays = dummies(part.spec, {})
        assert {name: list(arrays[name].shape) for name in shapes} == shapes


def told_task(model_type, preset, task):
    """What Optimum tells of the task that we call so."""
    return contract()[model_type]["configs"][preset]["tasks"][exports(model_type, preset)[task][0]]


def merged_pairs():
    """Those of `pairs()` of which Optimum makes one decoder of two."""
    return [one for one in pairs() if "merged" in told_task(*one.values)]


@pytest.mark.parametrize(("model_type", "preset", "task"), merged_pairs())
def test_a_merged_decoder_takes_and_gives_what_optimums_does(model_type, preset, task):
    made = plan(asked_for(model_type, task), configuration(model_type, preset))
    told = told_task(model_type, preset, task)
    merged = told["merged"]["default"]
    assert made.files == ("encoder_model.onnx", merged["file"])
    case = told["cases"][merged["cases"][1]]
    part = made.parts[1]
    assert list(part.inputs.items()) == list(told_tensors(model_type, preset, task, case, "input", ()).items())
    assert list(part.outputs.items()) == list(told_tensors(model_type, preset, task, case, "output", ()).items())


def test_every_model_type_of_optimums_table_has_a_row():
    assert set(contract()) <= set(ARCHITECTURES)
    assert sum(len(told["tasks"]) for told in contract().values()) == 580


@pytest.mark.parametrize("model_type", [name for name in contract() if name in ARCHITECTURES])
def test_a_row_knows_optimums_tasks(model_type):
    never = {task for one in NEVER_MADE if one.model_type == model_type for task in one.tasks}
    assert set(map(canonical, contract()[model_type]["tasks"])) - never <= set(task_names(ARCHITECTURES[model_type]))


@pytest.mark.parametrize("one", NEVER_MADE, ids=lambda one: one.model_type)
def test_what_optimum_declares_and_never_makes_is_of_no_class(one):
    tasks = contract()[one.model_type]["configs"]["default"]["tasks"]
    assert {tasks[task]["model_class"] for task in one.tasks} == {None}
    assert not {*one.tasks} & {*task_names(ARCHITECTURES[one.model_type])}


@pytest.mark.parametrize("correction", CORRECTIONS, ids=lambda one: one.model_type)
def test_a_correction_corrects_something_and_says_why(correction):
    assert correction.optimum != correction.ours
    assert len(correction.why) > 20
    told = contract()[correction.model_type]["configs"].values()
    cases = [case for preset in told for task in preset["tasks"].values() for case in task["cases"].values()]
    tensors = [
        called(case, side, case[f"{side}s"]).get(name, {})
        for case in cases
        for side in ("input", "output")
        for name in correction.tensors
    ]
    assert correction.optimum in {one.get(str(correction.axis)) for one in tensors if one}


@pytest.mark.parametrize("one", PRESETS_LEFT, ids=lambda one: f"{one.model_type}-{one.preset}")
def test_a_preset_that_is_left_has_the_values_of_another(one):
    presets = contract()[one.model_type]["configs"]
    assert presets[one.preset]["config_kwargs"] == presets[one.same_as]["config_kwargs"]


@pytest.mark.parametrize("one", SIZES_CORRECTED, ids=lambda one: f"{one.model_type}-{one.preset}-{one.optimum}")
def test_a_corrected_size_is_one_that_optimum_has(one):
    tasks = contract()[one.model_type]["configs"][one.preset]["tasks"].values()
    shapes = [called(case, "input", case["dummy_shapes"]) for task in tasks for case in task["cases"].values()]
    sizes = [shape[one.axis] for told in shapes for name, shape in told.items() if name.endswith(one.endings)]
    assert one.optimum in sizes
    assert one.optimum != one.ours

"""Plans have the files, names, order, axes and dummy shapes that Optimum declares, apart from listed corrections."""

import importlib
import re
from itertools import product

import pytest
from corrections import CORRECTIONS, EXCLUDED, NEXT_TOKENS, NEXT_TOKENS_SIZE, VARIANTS, corrections
from declarations import contract, exports

from onnxfn.architectures import ARCHITECTURES
from onnxfn.specs.algebra.dummies import dummies
from onnxfn.specs.plan.planning import plan
from onnxfn.specs.tasks.tasks import canonical, for_task, task_names

Axes = dict[str, dict[int, str]]
LIBRARIES_WITHOUT_CLASSES = ("timm", "diffusers")
"""Libraries whose configurations are the values themselves."""

TRANSFORMERS_CLASS = re.compile(r"transformers\.\w+")
REMOVED = {"mctct": {"input_feat_per_channel": 80, "conv_stride": [3]}}
"""Model types that transformers 5 no longer has, and the defaults of their configurations."""


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


def onnx_names(case, side, tensors):
    """Tensors by their names in ONNX; Optimum declares some by those of torch."""
    names = case.get(f"torch_to_onnx_{side}_map", {})
    # Optimum keeps the prefix of inputs inside a dict.
    return {names.get(name, name.removeprefix("added_cond_kwargs.")): value for name, value in tensors.items()}


def without_absent(model_type, preset, task, tensors):
    starts = sum((row.tensors for row in corrections("absent", model_type, preset, task)), ())
    return {name: value for name, value in tensors.items() if not name.startswith(starts)}


def expected_axes(model_type, preset, task, case, side) -> Axes:
    """The inputs or outputs of a file as Optimum declares them, with our corrections."""
    declared = without_absent(model_type, preset, task, onnx_names(case, side, case[f"{side}s"]))
    axes = {
        name: {int(axis): NEXT_TOKENS if symbol == "1" else symbol for axis, symbol in symbols.items()}
        for name, symbols in declared.items()
    }
    for row in corrections("symbol", model_type, preset, task):
        for name in row.tensors:
            if name in axes and axes[name].get(row.axis) == row.optimum:
                axes[name].pop(row.axis, None)
                axes[name] |= {} if row.ours is None else {row.axis: row.ours}
    return axes


def expected_shapes(model_type, preset, task, case, inputs: Axes):
    """The shapes of the dummy inputs as Optimum declares them, with our corrections."""
    shapes = without_absent(model_type, preset, task, onnx_names(case, "input", case["dummy_shapes"]))
    changed = {name: list(shape) for name, shape in shapes.items()}
    for row in corrections("size", model_type, preset):
        for name in (name for name in changed if name.endswith(row.tensors)):
            if changed[name][row.axis] == int(row.optimum):
                changed[name][row.axis] = int(row.ours)
    for name, symbols in inputs.items():
        for axis in (axis for axis, symbol in symbols.items() if symbol == NEXT_TOKENS and name in changed):
            changed[name][axis] = NEXT_TOKENS_SIZE
    return changed


# Both sides


@pytest.mark.parametrize(
    ("model_type", "preset", "task"),
    [
        pytest.param(model_type, preset, task, id=f"{model_type}-{preset}-{task}")
        for model_type in contract()
        if model_type in ARCHITECTURES
        for preset in contract()[model_type]["configs"]
        for task in exports(model_type, preset)
        if (model_type, task) not in EXCLUDED
        and not corrections("without model", model_type, preset, task)
        and not corrections("repeated preset", model_type, preset)
    ],
)
def test_a_plan_has_the_files_names_order_axes_and_dummy_shapes_of_optimum(model_type, preset, task):
    spec, config = spec_of(model_type, task), configuration(model_type, preset)
    planned = plan(spec, config, decoders="separate")
    name, files = exports(model_type, preset)[task]
    declared = contract()[model_type]["configs"][preset]["tasks"][name]
    rows = corrections("added input", model_type, None, task)
    added = {name: dict(enumerate(row.ours.split())) for row in rows for name in row.tensors}
    assert list(planned.files) == [file for file, _ in files]
    for part, case in zip(planned.parts, (declared["cases"][name] for _, name in files), strict=True):
        assert_same_tensors(part, model_type, preset, task, case, added)
        shapes = expected_shapes(model_type, preset, task, case, part.inputs)
        arrays = dummies(part.spec, {})
        assert {name: list(arrays[name].shape) for name in shapes} == shapes
    if "merged" in declared:
        planned, merged = plan(spec, config), declared["merged"]["default"]
        assert planned.files == ("encoder_model.onnx", merged["file"])
        assert_same_tensors(planned.parts[1], model_type, preset, task, declared["cases"][merged["cases"][1]], {})


def assert_same_tensors(part, model_type, preset, task, case, added):
    """A part has the inputs, outputs and axes of a case, in its order; the added inputs are last."""
    inputs = expected_axes(model_type, preset, task, case, "input")
    assert not inputs.keys() & added.keys()
    assert list(part.inputs.items()) == [*inputs.items(), *added.items()]
    outputs = expected_axes(model_type, preset, task, case, "output")
    assert list(part.outputs.items()) == list(outputs.items())


def test_every_model_type_of_optimum_has_a_row():
    assert set(contract()) <= set(ARCHITECTURES)
    assert sum(len(declared["tasks"]) for declared in contract().values()) == 580


def test_a_row_has_the_tasks_of_optimum():
    for model_type in contract():
        excluded = {task for row in corrections("without model", model_type) for task in row.tasks}
        tasks = set(map(canonical, contract()[model_type]["tasks"])) - excluded
        assert tasks <= set(task_names(ARCHITECTURES[model_type])), model_type


# The corrections


def declared_cases(model_type, preset=None):
    """All cases that Optimum declares of a model type, or of one preset of it."""
    presets = contract()[model_type]["configs"]
    chosen = [declared for name, declared in presets.items() if preset in (None, name)]
    return [case for declared in chosen for task in declared["tasks"].values() for case in task["cases"].values()]


def test_tasks_without_a_model_have_no_class():
    for row in corrections("without model"):
        for model_type in row.model_types:
            tasks = contract()[model_type]["configs"]["default"]["tasks"]
            assert {tasks[task]["model_class"] for task in row.tasks} == {None}
            assert not {*row.tasks} & {*task_names(ARCHITECTURES[model_type])}


def test_each_correction_has_a_reason_and_changes_something():
    for row in CORRECTIONS:
        assert row.kind in {"symbol", "size", "added input", "absent", "without model", "repeated preset"}
        assert len(row.why) > 20, row
        assert row.optimum != row.ours or row.kind in ("absent", "without model"), row


def test_a_corrected_symbol_is_one_that_optimum_declares():
    pairs = [(each, name) for each in corrections("symbol") for name in each.model_types]
    for row, model_type in pairs:
        tensors = [
            onnx_names(case, side, case[f"{side}s"]).get(name, {})
            for case in declared_cases(model_type)
            for side in ("input", "output")
            for name in row.tensors
        ]
        assert row.optimum in {axes.get(str(row.axis)) for axes in tensors if axes}, (row, model_type)


def test_a_corrected_size_is_a_size_that_optimum_declares():
    for row in corrections("size"):
        for model_type, preset in product(row.model_types, row.presets):
            shapes = [onnx_names(case, "input", case["dummy_shapes"]) for case in declared_cases(model_type, preset)]
            sizes = [shape[row.axis] for named in shapes for name, shape in named.items() if name.endswith(row.tensors)]
            assert int(row.optimum) in sizes, row


def test_a_repeated_preset_has_the_values_of_another_preset():
    for row in corrections("repeated preset"):
        for model_type, preset in product(row.model_types, row.presets):
            presets = contract()[model_type]["configs"]
            assert presets[preset]["config_kwargs"] == presets[row.ours]["config_kwargs"]

"""Edits reach every part of every plan: laws over the plans of rows, encoder-decoders among them."""

import pytest
from declared_specs import every_name
from refusals import refusal
from transformers import AutoConfig

from onnxfn import ARCHITECTURES, InvalidSpec
from onnxfn.specs.axes import axis_map
from onnxfn.specs.edits import tensors as edits
from onnxfn.specs.edits.axes import with_axis
from onnxfn.specs.edits.renaming import renamed
from onnxfn.specs.plan.planning import plan, planned_axes
from onnxfn.specs.tasks.tasks import for_task, task_names

EXAMPLES = [
    *(("t5", task) for task in ("text2text-generation", "text2text-generation-with-past")),
    *(("whisper", task) for task in ("automatic-speech-recognition-with-past", "audio-classification")),
    *((name, task_names(ARCHITECTURES[name])[-1]) for name in ("bert", "clip", "speecht5", "llama", "sam", "musicgen")),
]


def planned_names(spec, config):
    """The names of all inputs and outputs of all parts of all plans of a spec."""
    plans = [planned_axes(spec, config, decoders=decoders) for decoders in ("merged", "separate")]
    return {name for planned in plans for part in planned.parts for name in (*part.inputs, *part.outputs)}


@pytest.mark.parametrize(("model_type", "task"), EXAMPLES)
def test_a_tensor_is_left_out_or_renamed_in_every_part_of_any_plan(model_type, task):
    spec, config = for_task(ARCHITECTURES[model_type], task), AutoConfig.for_model(model_type)
    before = planned_names(spec, config)
    names = before & {*every_name(spec)}
    assert names
    for name in names:
        assert name not in planned_names(edits.without(spec, name), config)
        assert planned_names(renamed(spec, **{name: "another"}), config) == before - {name} | {"another"}


@pytest.mark.parametrize(("model_type", "task"), EXAMPLES)
def test_an_axis_is_added_to_every_part_of_a_plan(model_type, task):
    spec, config = for_task(ARCHITECTURES[model_type], task), AutoConfig.for_model(model_type)
    start = "batch_size"
    if not any(start in axes.values() for part in plan(spec, config).parts for axes in part.inputs.values()):
        assert "no input of" in refusal(InvalidSpec, with_axis, spec, "extra", at=1, starting=start)
        return
    before, after = (plan(one, config) for one in (spec, with_axis(spec, "extra", at=1, starting=start)))
    for part, changed in zip(before.parts, after.parts, strict=True):
        fits = {one.name for one in part.spec.inputs if one.layer is None and one.axes.axes[:1] == axis_map(start).axes}
        assert {name for name, axes in changed.inputs.items() if "extra" in axes.values()} == fits

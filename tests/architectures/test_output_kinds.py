"""The dtypes of outputs in plans are those that tiny models return in PyTorch."""

import every_head
import pytest
import swept
import torch

from onnxfn.architectures import ARCHITECTURES
from onnxfn.models.forward import flat_forward, tensors_for
from onnxfn.models.model_state import unchanged_eval
from onnxfn.models.patching import applied
from onnxfn.models.torch_modes import quiet
from onnxfn.specs.algebra.dummies import dummies, graph_dtype
from onnxfn.specs.plan.planning import plan
from onnxfn.specs.results.output_types import output_kind
from onnxfn.specs.tasks.tasks import for_task, task_names

SAMPLE = ("dac", "superpoint", "speecht5", "time_series_transformer")
"""Rows with other outputs than logits and hidden states."""

NO_MODEL = ("timm.", "sentence_transformers.", "diffusers.")
"""Rows of libraries whose models `tiny` does not build."""


def planned_and_returned(name, task):
    """For each output of each part its name, the dtype in the plan, and the dtype in PyTorch."""
    model = every_head.tiny_model(name, task)
    for part in plan(for_task(ARCHITECTURES[name], task), model.config).parts:
        spec = part.spec
        with quiet(), unchanged_eval(model), torch.no_grad(), applied(spec.call.patches):
            tensors = flat_forward(model, spec)(tensors_for(model, spec, dummies(spec, {})))
        for output, tensor in zip(spec.outputs, tensors, strict=True):
            yield output.name, graph_dtype(spec, output_kind(spec, output)), str(tensor.dtype).removeprefix("torch.")


def has_model(name, task):
    return not name.startswith(NO_MODEL) and task in every_head.listed_tasks(name)


@pytest.mark.parametrize("name", swept.with_sweep(SAMPLE, [name for name in ARCHITECTURES if name not in SAMPLE]))
def test_outputs_have_the_dtypes_of_the_plan(name):
    tasks = [task for task in task_names(ARCHITECTURES[name]) if has_model(name, task)]
    assert tasks or name not in SAMPLE
    for task in tasks:
        assert [row for row in planned_and_returned(name, task) if row[1] != row[2]] == [], task

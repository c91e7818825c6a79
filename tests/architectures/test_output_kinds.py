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


@pytest.mark.parametrize("name", swept.with_sweep(SAMPLE, [name for name in ARCHITECTURES if name not in SAMPLE]))
def test_outputs_have_the_dtypes_of_the_plan(name):
    listed = () if name.startswith(NO_MODEL) else every_head.listed_tasks(name)
    tasks = [task for task in task_names(ARCHITECTURES[name]) if task in listed]
    assert tasks or name not in SAMPLE
    for task in tasks:
        model = every_head.tiny_model(name, task)
        for part in plan(for_task(ARCHITECTURES[name], task), model.config).parts:
            spec = part.spec
            with quiet(), unchanged_eval(model), torch.no_grad(), applied(spec.call.patches):
                tensors = flat_forward(model, spec)(tensors_for(model, spec, dummies(spec, {})))
            for output, tensor in zip(spec.outputs, tensors, strict=True):
                planned, returned = graph_dtype(spec, output_kind(spec, output)), str(tensor.dtype)
                assert f"torch.{planned}" == returned, (task, output.name)

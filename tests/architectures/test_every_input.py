"""Inputs that a processor gives and that a model reads are taken by its graphs, by default or with an edit."""

import every_head
import pytest

import onnxfn
from onnxfn.export.derive.candidate_inputs import processed_arguments
from onnxfn.specs.plan.real_inputs import left_out

NOT_READ = "the configuration does not set"
"""How the reason of an input begins that this model does not read."""


def missing(spec, model):
    """The inputs that a processor gives, that the model reads, and that the graphs of a spec do not take."""
    every = left_out(spec, onnxfn.plan(spec, model), *processed_arguments(model))
    return [each.name for each in every if not each.reason.startswith(NOT_READ)]


@pytest.mark.parametrize(
    ("model_type", "task"), [("bert", "fill-mask"), ("clip", "feature-extraction"), ("whisper", "feature-extraction")]
)
def test_graphs_take_every_input(model_type, task):
    model = every_head.tiny_model(model_type, task)
    assert missing(onnxfn.spec_for(model, task), model) == []


def test_chinese_clip_takes_segment_ids_with_an_edit(tmp_path):
    model = every_head.tiny_model("chinese_clip", "feature-extraction")
    spec = onnxfn.with_input(onnxfn.spec_for("chinese_clip", "feature-extraction"), "token_type_ids")
    assert "token_type_ids" in onnxfn.export(spec, model, tmp_path / "out").plan.parts[0].inputs
    assert missing(spec, model) == []

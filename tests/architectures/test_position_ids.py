"""A decoder whose forward has `position_ids` is exported with them: a left-padded batch needs them."""

import inspect

import pytest
import transformers
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

import onnxfn
from onnxfn.architectures import decoders

# A model type of the contract that transformers does not have.
NOT_IN_TRANSFORMERS = {"internlm2"}
# Clients disagree on the rank of its positions: `with_input(spec, "position_ids")` or `with_mrope(spec)` takes them.
WITHOUT_POSITIONS = {"qwen3_5_text"}
# Falcon has positions only without ALiBi.
CONDITIONS = {"falcon": "not alibi"}

GENERATION = [
    (model_type, task)
    for model_type in decoders.ROWS
    for task in ("text-generation", "text-generation-with-past")
    if task in onnxfn.tasks_for(model_type) and model_type not in NOT_IN_TRANSFORMERS | WITHOUT_POSITIONS
]


@pytest.mark.parametrize(("model_type", "task"), GENERATION)
def test_a_decoder_has_position_ids_if_its_forward_has_them(model_type, task):
    forward = getattr(transformers, MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[model_type]).forward
    inputs = [input_ for input_ in onnxfn.spec_for(model_type, task).inputs if input_.name == "position_ids"]
    assert bool(inputs) == ("position_ids" in inspect.signature(forward).parameters)
    expected = [CONDITIONS[model_type]] if model_type in CONDITIONS else [None] * len(inputs)
    assert [input_.when for input_ in inputs] == expected


def test_every_row_of_a_decoder_is_tested():
    assert {model_type for model_type, _ in GENERATION} == set(decoders.ROWS) - NOT_IN_TRANSFORMERS - WITHOUT_POSITIONS

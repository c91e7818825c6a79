"""Every decoder whose forward takes positions is exported with them: else a left-padded batch is numbered wrongly."""

from __future__ import annotations

import inspect

import pytest
import transformers
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

import onnxfn
from onnxfn.architectures import decoders
from onnxfn.specs.getters import negated

# The contract's stand-in for a model that transformers does not have.
NOT_IN_TRANSFORMERS = {"internlm2"}
# With alibi there are no positions; without, there are.
CONDITIONED = {"falcon": negated("alibi")}

WRITERS = [
    (model_type, task)
    for model_type in decoders.ROWS
    for task in ("text-generation", "text-generation-with-past")
    if task in onnxfn.tasks_for(model_type) and model_type not in NOT_IN_TRANSFORMERS
]


@pytest.mark.parametrize(("model_type", "task"), WRITERS)
def test_a_decoder_takes_positions_where_its_forward_does(model_type, task):
    forward = getattr(transformers, MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[model_type]).forward
    taken = [one for one in onnxfn.spec_for(model_type, task).inputs if one.name == "position_ids"]
    assert bool(taken) == ("position_ids" in inspect.signature(forward).parameters)
    expected = [CONDITIONED[model_type]] if model_type in CONDITIONED else [None] * len(taken)
    assert [one.when for one in taken] == expected


def test_every_row_that_writes_is_asked():
    assert {model_type for model_type, _ in WRITERS} == set(decoders.ROWS) - NOT_IN_TRANSFORMERS

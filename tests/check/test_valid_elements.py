"""An output is compared at tokens, whichever of its axes has the tokens, and whether its file has a past or not."""

import numpy as np
import pytest
import tiny

import onnxfn
from onnxfn.check.verdict.compare import valid_elements

MASK = np.array([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1], [1, 0, 1, 1, 0]])
ROWS, LENGTH = MASK.shape


PROMPT, CONTINUED = "feature-extraction-with-past", "text-generation-with-past"
"""The tasks whose first file takes no cache, and takes one."""


def part(task):
    return onnxfn.plan(onnxfn.spec_for("llama", task), tiny.config("llama")).parts[0]


@pytest.mark.parametrize(
    ("name", "shape", "axis"),
    [("last_hidden_state", (ROWS, LENGTH, 7), 1), ("present.0.key", (ROWS, 2, LENGTH, 8), 2)],
)
def test_padding_is_left_out_of_a_prompt_with_its_cache(name, shape, axis):
    planned = part(PROMPT)
    select = valid_elements(planned.spec, planned.spec.outputs[name], {"attention_mask": MASK})
    array = np.random.default_rng(0).standard_normal(shape)
    by_token = np.moveaxis(array, axis, 1)[MASK.astype(bool)]
    assert np.array_equal(np.sort(select(array)), np.sort(by_token.ravel()))


@pytest.mark.parametrize("past", [0, 3])
def test_the_last_tokens_of_a_mask_are_those_of_a_shorter_output(past):
    planned = part(CONTINUED)
    logits = np.arange(ROWS * (LENGTH - past) * 2).reshape(ROWS, LENGTH - past, 2)
    selected = valid_elements(planned.spec, planned.spec["logits"], {"attention_mask": MASK})(logits)
    assert selected.tolist() == logits[MASK[:, past:].astype(bool)].ravel().tolist()


def test_what_lies_before_the_mask_is_compared():
    planned = part(PROMPT)
    array = np.ones((ROWS, 2, LENGTH + 4, 8))
    select = valid_elements(planned.spec, planned.spec["present.0.value"], {"attention_mask": MASK})
    assert select(array).size == (ROWS * 4 + MASK.sum()) * 2 * 8

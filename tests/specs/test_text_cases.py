"""Texts are checked with special tokens at masked tokens, with holes in masks, and as long as a model can read."""

import numpy as np
import pytest

from onnxfn import compose, spec_for, with_shapes
from onnxfn.specs.algebra.dummies import dummies, generates, padded
from onnxfn.specs.algebra.facts import case
from onnxfn.specs.axis_symbols import traced_sizes
from onnxfn.specs.plan.check_cases import FAR_PAST, FAR_TEXT, in_case
from onnxfn.specs.plan.planning import plan
from onnxfn.specs.plan.text_cases import LONG_PAST, LONG_TEXT, SPECIAL_TOKENS

BERT = {"vocab_size": 99, "type_vocab_size": 2, "pad_token_id": 7, "eos_token_id": [8, 9]}
GPT = {"vocab_size": 99, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "pad_token_id": 7}


def case_of(spec, config, name):
    """The planned spec of the first file in a case; None if it has no such case."""
    planned = plan(spec, config).parts[0].spec
    return next((in_case(planned, case) for case in planned.cases if case.name == name), None)


def test_masked_tokens_are_pad_tokens_and_texts_have_an_end_token_inside():
    inputs = dummies(case_of(spec_for("bert"), BERT, SPECIAL_TOKENS), {})
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    single, left, holes = mask.tolist()
    assert (single[0], sum(single)) == (1, 1)
    assert left == sorted(left)
    assert sum(left) > 1
    assert holes[0] == holes[-1] == 1
    assert 0 in holes
    assert (ids[mask == 0] == 7).all()
    assert (ids == 8).any(axis=1).all()
    assert ids[0].tolist() == [8] + [7] * 10


def test_a_model_that_needs_several_tokens_has_no_text_of_one():
    spec = compose(spec_for("bert"), generates("padding_mask", "mask", shortest=2))
    assert dummies(case_of(spec, BERT, SPECIAL_TOKENS), {})["attention_mask"][0].tolist() == [1, 1] + [0] * 9


def test_texts_with_padding_on_the_right_alone_are_of_several_tokens_and_of_one():
    spec = compose(spec_for("bert"), case("left-padded", padded("right")))
    mask = dummies(case_of(spec, BERT, SPECIAL_TOKENS), {})["attention_mask"]
    assert [row.sum() for row in mask] == [8, 1, 8]


@pytest.mark.parametrize("pad", [None, -1, 99])
def test_a_pad_token_that_is_not_in_the_vocabulary_is_in_no_text(pad):
    ids = dummies(case_of(spec_for("bert"), {**BERT, "pad_token_id": pad}, SPECIAL_TOKENS), {})["input_ids"]
    assert 0 <= ids.min() <= ids.max() < 99


def test_a_text_of_a_model_that_pools_at_its_end_has_several_end_tokens():
    config = {"text_config": {"vocab_size": 99, "eos_token_id": 98, "pad_token_id": 98}}
    config |= {"vision_config": {"image_size": 32}}
    ids = dummies(case_of(spec_for("clip", "feature-extraction"), config, SPECIAL_TOKENS), {})["input_ids"]
    assert ((ids == 98).sum(axis=1) > 1).all()


def test_the_past_of_special_tokens_is_empty():
    inputs = dummies(case_of(spec_for("gpt2", "text-generation-with-past"), GPT, SPECIAL_TOKENS), {})
    assert inputs["attention_mask"].shape == inputs["input_ids"].shape
    positions, mask = inputs["position_ids"], inputs["attention_mask"]
    assert np.array_equal(positions, np.maximum(mask.cumsum(axis=1) - 1, 0))


@pytest.mark.parametrize(
    ("positions", "length"),
    [({}, 512), ({"max_position_embeddings": 96}, 94), ({"n_positions": 4096, "max_position_embeddings": 40}, 38)],
)
def test_a_long_text_has_512_tokens_or_as_many_as_the_model_has_positions(positions, length):
    long_text = case_of(spec_for("bert"), {**BERT, **positions}, LONG_TEXT)
    assert dummies(long_text, {})["input_ids"].shape == (1, length)


def test_a_decoder_has_a_long_prompt_and_a_past_that_is_as_long():
    spec = spec_for("gpt2", "text-generation-with-past")
    arrays = [dummies(case_of(spec, GPT, name), {}) for name in (LONG_TEXT, LONG_PAST)]
    sizes = [{name: array.shape[-1] for name, array in each.items()} for each in arrays]
    assert (sizes[0]["input_ids"], sizes[0]["attention_mask"]) == (512, 512)
    assert sizes[1]["attention_mask"] == 512
    assert sizes[1]["input_ids"] < 16


def test_a_long_text_after_a_past_leaves_it_room():
    config = {"vocab_size": 99, "d_model": 8, "decoder_layers": 1, "decoder_attention_heads": 2}
    config |= {"max_position_embeddings": 96}
    planned = plan(spec_for("bart", "text2text-generation-with-past"), config, decoders="separate")
    (with_past,) = (part.spec for part in planned.parts if part.name == "decoder_with_past_model")
    (case,) = (case for case in with_past.cases if case.name == LONG_TEXT)
    inputs = dummies(in_case(with_past, case), {})
    past = inputs["past_key_values.0.decoder.key"].shape[2]
    assert past > 0
    assert inputs["input_ids"].shape[1] + past == 94


def test_a_text_that_is_no_longer_than_that_of_another_case_is_left_out():
    assert case_of(spec_for("bert"), {**BERT, "max_position_embeddings": 13}, LONG_TEXT) is None


def test_a_fixed_length_has_no_long_text():
    spec = with_shapes(spec_for("bert"), sequence_length=16)
    assert case_of(spec, BERT, LONG_TEXT) is None
    assert case_of(spec, BERT, SPECIAL_TOKENS) is not None


# Far texts, beyond the thresholds of a configuration

ROTARY = {"max_position_embeddings": 32768, "rope_parameters": {"rope_type": "default"}}
LONGROPE = {"rope_type": "longrope", "original_max_position_embeddings": 2000}


@pytest.mark.parametrize(
    ("config", "lengths"),
    [
        (ROTARY, []),
        ({**ROTARY, "sliding_window": 5}, []),
        ({**ROTARY, "sliding_window": 128}, [137]),
        ({**ROTARY, "sliding_window": 8192}, [8201]),
        ({**ROTARY, "text_config": {"attention_chunk_size": 1024}, "vision_config": {"window_size": 2000}}, [1033]),
        ({**ROTARY, "decoder": {"sliding_window_size": 700}}, [709]),
        ({**ROTARY, "attention_window": [600, 650]}, [609, 659]),
        ({**ROTARY, "sliding_window": 600, "index_topk": 2048}, [609, 2057]),
        ({**ROTARY, "rope_parameters": LONGROPE}, [2009]),
        ({**ROTARY, "rope_parameters": {"full_attention": LONGROPE, "sliding_attention": {}}}, [2009]),
        ({**ROTARY, "rope_parameters": {**LONGROPE, "rope_type": "yarn"}}, []),
        ({"max_position_embeddings": 600, "rope_parameters": {"rope_type": "dynamic"}}, [609]),
        ({"max_position_embeddings": 4100, "rope_parameters": {}, "sliding_window": 4096}, [4098]),
        ({"max_position_embeddings": 4096, "rope_parameters": {}, "sliding_window": 4096}, []),
        ({"max_position_embeddings": 1024}, [1022]),
        ({"max_position_embeddings": 512}, []),
        ({**ROTARY, "sliding_window": 131072}, []),
    ],
)
def test_a_far_text_is_nine_tokens_longer_than_each_threshold_as_far_as_there_are_positions(config, lengths):
    cases = plan(spec_for("bert"), {**BERT, **config}).parts[0].spec.cases
    assert [traced_sizes(case)["sequence_length"] for case in cases if case.name.startswith(FAR_TEXT)] == lengths


def test_one_token_follows_a_far_past_that_is_longer_than_the_window():
    spec, config = spec_for("gpt2", "text-generation-with-past"), {**GPT, **ROTARY, "sliding_window": 700}
    far = dummies(case_of(spec, config, FAR_PAST), {})
    assert far["past_key_values.0.key"].shape[2] == 708
    assert far["input_ids"].shape == (1, 1)
    assert far["attention_mask"].shape == (1, 709)


def test_scaling_that_begins_at_the_last_position_has_a_long_text_beyond_it():
    config = {**BERT, "max_position_embeddings": 40, "rope_parameters": {"rope_type": "dynamic"}}
    assert dummies(case_of(spec_for("bert"), config, LONG_TEXT), {})["input_ids"].shape == (1, 512)

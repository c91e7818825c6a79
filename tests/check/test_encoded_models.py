"""Encoder-decoders that see: their files one after the other, and faults between them; models without a placeholder."""

from functools import cache
from pathlib import Path
from unittest.mock import Mock

import every_part
import numpy as np
import pytest
import torch
from attrs import evolve
from faulty_sessions import Faulty

import onnxfn
from onnxfn.architectures.placeholders import placeholders, with_placeholders
from onnxfn.check.verdict.verdict import NoReference
from onnxfn.check.wholes.joined_parts import prompts_of, whole_model
from onnxfn.check.wholes.torch_whole import WHOLE
from onnxfn.check.wholes.whole_models import prompt_comparisons
from onnxfn.run.prompts_with_images import text_arguments
from onnxfn.run.sessions import open_check_session
from onnxfn.run.towers import start_tokens

TASK = "image-text-to-text-with-past"


@pytest.fixture(scope="module")
def florence():
    return every_part.tiny_model("florence2", TASK)


@pytest.fixture(scope="module")
def exported(florence, tmp_path_factory):
    folder = tmp_path_factory.mktemp("florence2") / "out"
    return onnxfn.export(onnxfn.spec_for(florence, TASK), florence, folder)


def test_the_files_have_the_names_that_clients_load(exported):
    parts = {part.name: part for part in exported.plan}
    assert list(parts) == ["vision_encoder", "embed_tokens", "encoder_model", "decoder_model_merged"]
    assert list(parts["encoder_model"].inputs) == ["inputs_embeds", "attention_mask"]
    assert list(parts["encoder_model"].outputs) == ["last_hidden_state"]
    decoder = parts["decoder_model_merged"]
    assert {"encoder_hidden_states", "encoder_attention_mask", "inputs_embeds"} <= {*decoder.inputs}
    assert {"past_key_values.0.decoder.key", "past_key_values.0.encoder.value"} <= {*decoder.inputs}
    assert parts["embed_tokens"].inputs == {"input_ids": {0: "batch_size", 1: "sequence_length"}}


def test_the_whole_is_compared_with_generate(exported):
    outputs = {each.output: each for each in exported.report.differences if each.part == WHOLE}
    assert {*outputs} == {"logits", "logits of new tokens", "tokens of generate"}
    assert outputs["tokens of generate"].max_abs == 0
    assert "16 tokens after 2 images in 2 left-padded texts" in exported.report.cases


def test_features_in_another_order_are_found(florence, exported):
    whole = whole_model(florence, exported.plan, Path(exported.path), cache(open_check_session))
    given = next(prompt for prompt in prompts_of(whole) if prompt.case == "2 images in a text")

    def session_of(part):
        session = whole.session_of(part)
        reversed_rows = Faulty(session, returned=lambda outputs: [each[::-1] for each in outputs])
        return reversed_rows if part.name == "vision_encoder" else session

    other = evolve(whole, session_of=session_of)
    assert next(prompt_comparisons(whole, None, given)).passed
    assert not next(prompt_comparisons(other, Mock(side_effect=NoReference("not computed")), given)).passed


def test_generate_writes_what_pytorch_writes_about_an_image(florence, exported):
    whole = whole_model(florence, exported.plan, Path(exported.path), cache(open_check_session))
    prompt = next(prompt for prompt in prompts_of(whole) if prompt.case == "1 image in a text")
    texts = onnxfn.generate(exported.path, prompt.arguments, max_new_tokens=5)
    tensors = {name: torch.from_numpy(array) for name, array in prompt.arguments.items()}
    options = {"eos_token_id": None, "forced_eos_token_id": None, "do_sample": False, "num_beams": 1}
    assert texts.tolist() == florence.generate(**tensors, **options, max_new_tokens=5).tolist()


def test_the_first_token_is_that_of_generate(florence):
    assert start_tokens(florence, 2).tolist() == [[2], [2]]


def test_marked_places_get_a_token_and_padding_is_not_counted():
    known = placeholders({"model_type": "kosmos-2", "text_config": {"pad_token_id": 1, "eos_token_id": 2}})
    assert (known.first_position, known.padding, known.tokens) == (2, 1, {"image_features": 2})
    ids, places = np.array([[4, 5, 6]]), np.array([[False, True, False]])
    marked = with_placeholders({"input_ids": ids, "image_embeds_position_mask": places}, known)
    assert marked["input_ids"].tolist() == [[4, 2, 6]]
    padded = text_arguments([(2, 1), (1,)], 9, [4, 5, 6, 7, 8], known.padding)
    assert padded["input_ids"][1][padded["attention_mask"][1] == 0].tolist() == [1] * 7


@pytest.mark.parametrize("model_type", ["blip-2", "kosmos-2"])
def test_a_language_model_inside_is_the_decoder(model_type):
    model = every_part.tiny_model(model_type, TASK)
    plan = onnxfn.plan(onnxfn.spec_for(model, TASK), model)
    assert list(plan["vision_encoder"].inputs) == ["pixel_values"]
    decoder = plan["decoder_model_merged"]
    assert list(decoder.inputs)[:2] == ["inputs_embeds", "attention_mask"]
    assert decoder.spec.call.submodule == "wide_rows.inner_language_model"


def test_a_q_former_reads_a_text_with_each_image():
    model = every_part.tiny_model("instructblip", TASK)
    plan = onnxfn.plan(onnxfn.spec_for(model, TASK), model)
    assert list(plan["vision_encoder"].inputs) == ["pixel_values", "qformer_input_ids", "qformer_attention_mask"]

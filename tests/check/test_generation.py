"""Greedy decoding with ONNX Runtime, and the check of a decoder by what it writes."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import tiny
import torch
from onnx import helper
from refusals import refusal

import onnxfn
from onnxfn.check.check import _past_of_a_prompt, case_inputs, references
from onnxfn.check.decoded_texts import _choose_by_group
from onnxfn.check.generation import generate, most_likely_token, most_likely_unused_token, present_name
from onnxfn.graphs.capture.forward import torch_outputs
from onnxfn.specs.errors import InvalidSpec, ModelNotFound
from onnxfn.specs.plan.check_cases import cases, in_case
from onnxfn.specs.plan.planning import plan

SPEC = onnxfn.spec_for("llama", "text-generation-with-past")


@pytest.fixture(scope="module")
def llama():
    return tiny.model("llama", "AutoModelForCausalLM")


@pytest.fixture(scope="module")
def exported(llama, tmp_path_factory):
    return onnxfn.export(SPEC, llama, tmp_path_factory.mktemp("llama") / "out")


def prompts():
    """Two prompts of 7 and 4 tokens, padded at the left."""
    ids = np.random.default_rng(0).integers(2, 100, (2, 7))
    mask = np.ones_like(ids)
    mask[1, :3] = 0
    return ids, mask


def written_by_torch(model, ids, mask, steps):
    with torch.no_grad():
        return model.generate(
            torch.from_numpy(ids),
            attention_mask=torch.from_numpy(mask),
            max_new_tokens=steps,
            do_sample=False,
            eos_token_id=None,
        ).numpy()


def test_a_padded_batch_is_continued_as_pytorch_continues_it(llama, exported):
    ids, mask = prompts()
    assert np.array_equal(generate(exported, ids, mask, max_new_tokens=16), written_by_torch(llama, ids, mask, 16))


def test_a_padded_prompt_is_continued_as_it_is_alone(exported):
    ids, mask = prompts()
    together = generate(exported, ids, mask, max_new_tokens=8)
    alone = generate(exported.files[0], ids[1:, 3:], max_new_tokens=8)
    assert np.array_equal(together[1:, -8:], alone[:, -8:])


def test_a_text_that_has_come_to_its_stop_repeats_it_until_all_have(exported):
    ids, mask = prompts()
    free = generate(exported, ids, mask, max_new_tokens=8)
    stop = int(free[0, 8])
    stopped = generate(exported, ids, mask, max_new_tokens=8, stop=[stop])
    first = list(free[0, 7:]).index(stop) + 7
    assert (stopped[0, first:] == stop).all()
    assert np.array_equal(stopped[1], free[1, : stopped.shape[1]])


def test_decoding_ends_when_every_text_has_come_to_its_stop(exported):
    ids, _ = prompts()
    free = generate(exported, ids[:1], max_new_tokens=8)
    stop = int(free[0, 7])
    assert generate(exported, ids[:1], max_new_tokens=8, stop=[stop]).shape == (1, 8)


def test_one_graph_serves_prompt_and_next_token(exported):
    assert [name.rpartition("/")[2] for name in exported.files if name.endswith(".onnx")] == ["model.onnx"]
    assert not [node for node in onnx.load(exported.files[0]).graph.node if node.op_type == "If"]


def test_heads_are_numbers_and_the_batch_is_called_so(exported, llama):
    session = onnxruntime.InferenceSession(exported.files[0])
    heads, size = llama.config.num_key_value_heads, llama.config.head_dim
    past = {one.name: one.shape for one in session.get_inputs() if one.name.startswith("past_")}
    assert past["past_key_values.0.key"] == ["batch_size", heads, "past_sequence_length", size]
    present = {one.name: one.shape for one in session.get_outputs() if one.name.startswith("present")}
    assert present["present.1.value"] == ["batch_size", heads, "past_sequence_length + sequence_length", size]


def test_a_report_tells_that_a_text_was_written(exported):
    written = exported.report.differences[-1]
    assert (written.output, written.passed) == ("greedy tokens", True)
    assert written.shapes == ((2, 22), (2, 22))
    assert [case for case in exported.report.cases if "left-padded prompts)" in case] == [
        "greedy (16 tokens after 2 left-padded prompts)",
        "greedy, no token twice (16 tokens after 2 left-padded prompts)",
    ]


def test_a_fixed_batch_writes_one_way_after_the_other(llama, tmp_path):
    exported = onnxfn.export(onnxfn.with_shapes(SPEC, batch_size=1), llama, tmp_path / "model.onnx")
    assert exported.report.differences[-1].shapes == ((1, 22), (1, 22))


def test_the_first_texts_of_a_batch_are_written_in_the_first_way():
    logits = np.array([[0.0, 9.0, 1.0], [0.0, 9.0, 2.0], [0.0, 9.0, 1.0], [3.0, 9.0, 2.0]])
    written = np.array([[1], [1], [1], [1]])
    assert _choose_by_group([most_likely_token, most_likely_unused_token])(logits, written).tolist() == [1, 1, 2, 0]


def test_what_texts_are_written_of_is_read_once_for_each_way_to_write(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(
        "onnxfn.check.decoded_texts.torch_outputs",
        lambda model, part, arrays: asked.append((part.name, arrays)) or torch_outputs(model, part, arrays),
    )
    spec = onnxfn.spec_for("t5", "text2text-generation-with-past")
    done = onnxfn.export(spec, tiny.model("t5", spec.call.loader), tmp_path / "out")
    assert {one.output for one in done.report.differences} >= {"greedy tokens"}
    (read, sources), (wrote, texts) = asked
    assert (read, len(sources["input_ids"])) == ("encoder_model", 2)
    assert (wrote, len(texts["input_ids"])) == ("decoder_model_merged", 4)
    states = texts["encoder_hidden_states"]
    assert np.array_equal(states[:2], states[2:])
    assert not np.allclose(states[0], states[1])


def forgetful(file, name):
    """The file, deaf to one input of the past: it reads zeros in its place."""
    model = onnx.load(file)
    nothing = helper.make_node("Sub", [name, name], ["nothing"])
    for node in model.graph.node:
        node.input[:] = ["nothing" if read == name else read for read in node.input]
    model.graph.node.insert(0, nothing)
    onnx.save(model, file)


def test_a_graph_that_forgets_a_part_of_its_past_is_convicted(llama, tmp_path):
    result = onnxfn.export(SPEC, llama, tmp_path / "model.onnx")
    forgetful(result.files[0], "past_key_values.1.key")
    report = onnxfn.validate(SPEC, llama, result)
    failed = {one.output for one in report.differences if not one.passed}
    assert {"logits", "present.1.key", "greedy tokens"} <= failed


def test_the_pasts_of_cases_are_the_beginning_of_one_text_but_where_some_of_it_is_padding(llama, monkeypatch):
    own = []
    monkeypatch.setattr(
        "onnxfn.check.check._past_of_a_prompt", lambda *told: own.append(told[3]) or _past_of_a_prompt(*told)
    )
    part = plan(SPEC, llama).parts[0]
    known = {one.case.partition(" (")[0]: one.arrays for one in references(llama, part)}
    pasts = {case: arrays["past_key_values.1.key"] for case, arrays in known.items()}
    assert [past.shape[2] for past in pasts.values()] == [16, 16, 16, 0, 0, 9, 21]
    longest = pasts["next tokens"]
    alike = {case for case, past in pasts.items() if np.array_equal(past[:1], longest[:, :, : past.shape[2]])}
    masks = {case: arrays["attention_mask"] for case, arrays in known.items()}
    padded = {case for case, mask in masks.items() if not mask[:, :9].all()}
    assert padded == {"left-padded", "left-padded prompts", "next token"}
    # A text of their own, though the first of it, without padding, may be the same to the last bit.
    apart = {case for case, mask in masks.items() if any(np.array_equal(mask, one["attention_mask"]) for one in own)}
    assert apart == {"left-padded", "next token"}
    assert alike >= {*pasts} - apart


def test_a_past_is_made_where_none_that_was_left_is_long_enough(llama):
    part = plan(SPEC, llama).parts[0]
    *_, asks = (in_case(part.spec, overlay) for overlay in cases(part.spec))
    short = next(one for one in references(llama, part) if one.case.startswith("prompt"))
    made = case_inputs(llama, part, asks, left=short.outputs)
    assert made["past_key_values.1.key"].shape[2] > short.outputs[-1].shape[2]
    assert all(np.array_equal(array, case_inputs(llama, part, asks)[name]) for name, array in made.items())


def test_feature_extraction_without_past_has_no_cache_tensors(tmp_path):
    model = tiny.model("llama", "AutoModel")
    result = onnxfn.export(onnxfn.spec_for("llama", "feature-extraction"), model, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(result.files[0])
    assert [one.name for one in session.get_inputs()] == ["input_ids", "attention_mask", "position_ids"]
    assert [one.name for one in session.get_outputs()] == ["last_hidden_state"]


def test_an_input_that_generate_cannot_feed_is_named(tmp_path):
    model = tiny.model("bert", "AutoModelForMaskedLM")
    result = onnxfn.export(onnxfn.spec_for("bert", "fill-mask"), model, tmp_path / "model.onnx")
    told = refusal(InvalidSpec, generate, result, np.ones((1, 3)))
    assert told == "nothing to feed token_type_ids with; generate knows input_ids, attention_mask, position_ids"


def test_a_file_that_is_not_there_is_refused(tmp_path):
    told = refusal(ModelNotFound, generate, tmp_path / "model.onnx", np.ones((1, 3)))
    assert told.endswith("model.onnx; name the ONNX file of a decoder with past, or the folder of an export")


def test_what_is_taken_and_given_goes_by_related_names(exported):
    taken = [name for name in exported.inputs if name.startswith("past_")]
    assert {present_name(name) for name in taken} == {name for name in exported.outputs if name != "logits"}


def test_a_model_that_keeps_states_alone_writes_too(tmp_path):
    spec = onnxfn.spec_for("mamba2", "text-generation-with-past")
    model = tiny.model("mamba2", spec.call.loader)
    result = onnxfn.export(spec, model, tmp_path / "out")
    assert "greedy tokens" in {one.output for one in result.report.differences}
    ids = np.random.default_rng(0).integers(2, 100, (2, 7))
    assert np.array_equal(generate(result, ids, max_new_tokens=8), written_by_torch(model, ids, np.ones_like(ids), 8))

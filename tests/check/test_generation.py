"""Greedy decoding with ONNX Runtime, and the check of a decoder by the texts that it decodes."""

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
from onnxfn.check.generation import generate
from onnxfn.check.greedy_decoding import most_likely_token, most_likely_unused_token, present_name
from onnxfn.check.references import _past_from_own_prompt, case_inputs, references
from onnxfn.check.token_choices import by_group
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


def decoded_by_torch(model, ids, mask, steps):
    with torch.no_grad():
        return model.generate(
            torch.from_numpy(ids),
            attention_mask=torch.from_numpy(mask),
            max_new_tokens=steps,
            do_sample=False,
            eos_token_id=None,
        ).numpy()


def test_a_padded_batch_is_continued_as_by_pytorch(llama, exported):
    ids, mask = prompts()
    assert np.array_equal(generate(exported, ids, mask, max_new_tokens=16), decoded_by_torch(llama, ids, mask, 16))


def test_a_padded_prompt_is_continued_as_without_padding(exported):
    ids, mask = prompts()
    together = generate(exported, ids, mask, max_new_tokens=8)
    alone = generate(exported.files[0], ids[1:, 3:], max_new_tokens=8)
    assert np.array_equal(together[1:, -8:], alone[:, -8:])


def test_an_ended_text_repeats_its_stop_token_until_all_texts_have_ended(exported):
    ids, mask = prompts()
    free = generate(exported, ids, mask, max_new_tokens=8)
    stop = int(free[0, 8])
    stopped = generate(exported, ids, mask, max_new_tokens=8, stop=[stop])
    first = list(free[0, 7:]).index(stop) + 7
    assert (stopped[0, first:] == stop).all()
    assert np.array_equal(stopped[1], free[1, : stopped.shape[1]])


def test_decoding_ends_when_all_texts_have_ended(exported):
    ids, _ = prompts()
    free = generate(exported, ids[:1], max_new_tokens=8)
    stop = int(free[0, 7])
    assert generate(exported, ids[:1], max_new_tokens=8, stop=[stop]).shape == (1, 8)


def test_the_same_graph_runs_prompt_and_next_token(exported):
    assert [name.rpartition("/")[2] for name in exported.files if name.endswith(".onnx")] == ["model.onnx"]
    assert not [node for node in onnx.load(exported.files[0]).graph.node if node.op_type == "If"]


def test_heads_and_their_size_are_numbers_and_the_batch_is_a_symbol(exported, llama):
    session = onnxruntime.InferenceSession(exported.files[0])
    heads, size = llama.config.num_key_value_heads, llama.config.head_dim
    past = {input_.name: input_.shape for input_ in session.get_inputs() if input_.name.startswith("past_")}
    assert past["past_key_values.0.key"] == ["batch_size", heads, "past_sequence_length", size]
    present = {output.name: output.shape for output in session.get_outputs() if output.name.startswith("present")}
    assert present["present.1.value"] == ["batch_size", heads, "past_sequence_length + sequence_length", size]


def test_a_report_includes_the_decoded_texts(exported):
    decoded = exported.report.differences[-1]
    assert (decoded.output, decoded.passed) == ("greedy tokens", True)
    assert decoded.shapes == ((2, 22), (2, 22))
    assert [case for case in exported.report.cases if "left-padded prompts)" in case] == [
        "greedy (16 tokens after 2 left-padded prompts)",
        "greedy, no token twice (16 tokens after 2 left-padded prompts)",
    ]


def test_a_fixed_batch_decodes_each_way_in_a_batch_of_its_own(llama, tmp_path):
    exported = onnxfn.export(onnxfn.with_shapes(SPEC, batch_size=1), llama, tmp_path / "model.onnx")
    assert exported.report.differences[-1].shapes == ((1, 22), (1, 22))


def test_the_first_group_of_a_batch_is_decoded_in_the_first_way():
    logits = np.array([[0.0, 9.0, 1.0], [0.0, 9.0, 2.0], [0.0, 9.0, 1.0], [3.0, 9.0, 2.0]])
    texts = np.array([[1], [1], [1], [1]])
    assert by_group([most_likely_token, most_likely_unused_token])(logits, texts).tolist() == [1, 1, 2, 0]


def test_the_encoder_runs_once_for_all_ways_to_decode(monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr(
        "onnxfn.check.decoded_texts.torch_outputs",
        lambda model, part, arrays: calls.append((part.name, arrays)) or torch_outputs(model, part, arrays),
    )
    spec = onnxfn.spec_for("t5", "text2text-generation-with-past")
    result = onnxfn.export(spec, tiny.model("t5", spec.call.loader), tmp_path / "out")
    assert {difference.output for difference in result.report.differences} >= {"greedy tokens"}
    (encoder, encoder_inputs), (decoder, decoder_inputs) = calls
    assert (encoder, len(encoder_inputs["input_ids"])) == ("encoder_model", 2)
    assert (decoder, len(decoder_inputs["input_ids"])) == ("decoder_model_merged", 4)
    states = decoder_inputs["encoder_hidden_states"]
    assert np.array_equal(states[:2], states[2:])
    assert not np.allclose(states[0], states[1])


def replace_input_by_zeros(file, name):
    """Edit an ONNX file in place, so that it ignores an input and uses zeros."""
    model = onnx.load(file)
    zeros = helper.make_node("Sub", [name, name], ["zeros"])
    for node in model.graph.node:
        node.input[:] = ["zeros" if input_ == name else input_ for input_ in node.input]
    model.graph.node.insert(0, zeros)
    onnx.save(model, file)


def test_a_graph_that_ignores_an_input_of_its_past_fails(llama, tmp_path):
    result = onnxfn.export(SPEC, llama, tmp_path / "model.onnx")
    replace_input_by_zeros(result.files[0], "past_key_values.1.key")
    report = onnxfn.validate(SPEC, llama, result)
    failed = {difference.output for difference in report.differences if not difference.passed}
    assert {"logits", "present.1.key", "greedy tokens"} <= failed


def test_cases_share_the_past_of_one_prompt_unless_padding_is_in_it(llama, monkeypatch):
    own_prompts = []
    monkeypatch.setattr(
        "onnxfn.check.references._past_from_own_prompt",
        lambda model, part, spec, inputs, seed: (
            own_prompts.append(inputs) or _past_from_own_prompt(model, part, spec, inputs, seed)
        ),
    )
    part = plan(SPEC, llama).parts[0]
    inputs = {reference.case.partition(" (")[0]: reference.inputs for reference in references(llama, part)}
    pasts = {case: arrays["past_key_values.1.key"] for case, arrays in inputs.items()}
    assert [past.shape[2] for past in pasts.values()] == [16, 16, 16, 0, 0, 9, 21, 0, 87]
    longest = pasts["next tokens"]
    same_past = {case for case, past in pasts.items() if np.array_equal(past[:1], longest[:, :, : past.shape[2]])}
    masks = {case: arrays["attention_mask"] for case, arrays in inputs.items()}
    padded = {case for case, mask in masks.items() if not mask[:, :9].all()}
    assert padded == {"left-padded", "special tokens", "next token"}
    # Cases with a prompt of their own. Its first text has no padding and may be the same to the last bit.
    with_own_prompt = {
        case for case, mask in masks.items() if any(np.array_equal(mask, own["attention_mask"]) for own in own_prompts)
    }
    assert with_own_prompt == {"left-padded", "next token"}
    assert same_past >= {*pasts} - with_own_prompt - {"long past"}
    long_text = next(reference for reference in references(llama, part) if reference.case.startswith("long text "))
    keys = long_text.outputs[list(part.outputs).index("present.1.key")]
    assert np.array_equal(pasts["long past"], keys[:, :, :87])


def test_a_case_has_its_own_prompt_if_the_shared_prompt_is_too_short(llama):
    part = plan(SPEC, llama).parts[0]
    *_, spec = (in_case(part.spec, case) for case in cases(part.spec))
    short = next(reference for reference in references(llama, part) if reference.case.startswith("prompt"))
    inputs = case_inputs(llama, part, spec, shared=short.outputs)
    assert inputs["past_key_values.1.key"].shape[2] > short.outputs[-1].shape[2]
    assert all(np.array_equal(array, case_inputs(llama, part, spec)[name]) for name, array in inputs.items())


def test_feature_extraction_without_past_has_no_cache_tensors(tmp_path):
    model = tiny.model("llama", "AutoModel")
    result = onnxfn.export(onnxfn.spec_for("llama", "feature-extraction"), model, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(result.files[0])
    assert [input_.name for input_ in session.get_inputs()] == ["input_ids", "attention_mask", "position_ids"]
    assert [output.name for output in session.get_outputs()] == ["last_hidden_state"]


def test_an_input_that_generate_has_no_value_for_is_named(tmp_path):
    model = tiny.model("bert", "AutoModelForMaskedLM")
    result = onnxfn.export(onnxfn.spec_for("bert", "fill-mask"), model, tmp_path / "model.onnx")
    message = refusal(InvalidSpec, generate, result, np.ones((1, 3)))
    known = "input_ids, attention_mask, position_ids, num_logits_to_keep"
    assert message == f"generate has no value for the inputs token_type_ids; it knows {known}"


def test_a_file_that_does_not_exist_is_refused(tmp_path):
    message = refusal(ModelNotFound, generate, tmp_path / "model.onnx", np.ones((1, 3)))
    assert message.endswith("model.onnx; name the ONNX file of a decoder with past, or the folder of an export")


def test_the_name_of_a_present_output_follows_from_its_past_input(exported):
    past = [name for name in exported.inputs if name.startswith("past_")]
    assert {present_name(name) for name in past} == {name for name in exported.outputs if name != "logits"}


def test_a_model_with_recurrent_states_alone_decodes_texts(tmp_path):
    spec = onnxfn.spec_for("mamba2", "text-generation-with-past")
    model = tiny.model("mamba2", spec.call.loader)
    result = onnxfn.export(spec, model, tmp_path / "out")
    assert "greedy tokens" in {difference.output for difference in result.report.differences}
    ids = np.random.default_rng(0).integers(2, 100, (2, 7))
    assert np.array_equal(generate(result, ids, max_new_tokens=8), decoded_by_torch(model, ids, np.ones_like(ids), 8))

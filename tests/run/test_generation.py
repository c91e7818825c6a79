"""Greedy decoding with ONNX Runtime, and the check of a decoder by the texts that it decodes."""

from unittest.mock import Mock

import numpy as np
import onnx
import pytest
import tiny
import torch
from refusals import refusal

import onnxfn
from onnxfn.check.cases.references import references
from onnxfn.models.forward import torch_outputs
from onnxfn.run.generation import generate
from onnxfn.run.greedy_decoding import present_name
from onnxfn.specs.algebra.dummies import dummies
from onnxfn.specs.plan.check_cases import cases, in_case
from onnxfn.specs.plan.planning import plan

SPEC = onnxfn.spec_for("llama", "text-generation-with-past")


@pytest.fixture(scope="module")
def exported(llama, tmp_path_factory):
    return onnxfn.export(SPEC, llama, tmp_path_factory.mktemp("llama") / "out")


def prompts():
    ids = np.random.default_rng(0).integers(2, 100, (2, 7))
    mask = np.ones_like(ids)
    mask[1, :3] = 0
    return ids, mask


def decoded_by_torch(model, ids, mask, steps):
    options = {"max_new_tokens": steps, "do_sample": False, "eos_token_id": None}
    with torch.no_grad():
        return model.generate(torch.from_numpy(ids), attention_mask=torch.from_numpy(mask), **options).numpy()


def test_a_padded_batch_is_continued_as_by_pytorch(llama, exported):
    ids, mask = prompts()
    assert np.array_equal(generate(exported, ids, mask, max_new_tokens=16), decoded_by_torch(llama, ids, mask, 16))


def test_an_ended_text_repeats_its_stop_token_until_all_texts_have_ended_and_decoding_ends(exported):
    ids, mask = prompts()
    free = generate(exported, ids, mask, max_new_tokens=8)
    stop = int(free[0, 8])
    stopped = generate(exported, ids, mask, max_new_tokens=8, stop=[stop])
    first = list(free[0, 7:]).index(stop) + 7
    assert (stopped[0, first:] == stop).all()
    assert np.array_equal(stopped[1], free[1, : stopped.shape[1]])
    assert generate(exported, ids[:1], mask[:1], max_new_tokens=8, stop=[int(free[0, 7])]).shape == (1, 8)


def test_the_same_graph_runs_prompt_and_next_token(exported):
    assert [name.rpartition("/")[2] for name in exported.files if name.endswith(".onnx")] == ["model.onnx"]
    assert not [node for node in onnx.load(exported.files[0]).graph.node if node.op_type == "If"]


def test_a_report_includes_the_decoded_texts(exported):
    decoded = exported.report.differences[-1]
    assert (decoded.output, decoded.passed) == ("greedy tokens", True)
    assert decoded.shapes == ((2, 22),)
    assert exported.report.cases[-1] == "16 different tokens after 2 left-padded prompts"


def test_a_fixed_batch_decodes_a_batch_of_its_size(llama, tmp_path):
    exported = onnxfn.export(onnxfn.with_shapes(SPEC, batch_size=1), llama, tmp_path / "model.onnx")
    assert exported.report.differences[-1].shapes == ((1, 22),)


def test_the_encoder_runs_once_for_the_decoded_texts(monkeypatch, tmp_path):
    computed = Mock(wraps=torch_outputs)
    monkeypatch.setattr("onnxfn.check.texts.decoded_texts.torch_outputs", computed)
    spec = onnxfn.spec_for("t5", "text2text-generation-with-past")
    result = onnxfn.export(spec, tiny.model("t5", spec.call.loader), tmp_path / "out")
    assert {difference.output for difference in result.report.differences} >= {"greedy tokens"}
    calls = [(part.name, len(arrays["input_ids"])) for (_, part, arrays), _ in computed.call_args_list]
    assert calls == [("encoder_model", 2), ("decoder_model_merged", 2)]


def test_the_past_of_a_case_is_that_of_a_prompt_with_padding_only_where_its_mask_hides_the_past(llama):
    part = plan(SPEC, llama).parts[0]
    inputs = {reference.case.partition(" (")[0]: reference.inputs for reference in references(llama, part)}
    lengths = {case: arrays["past_key_values.1.key"].shape[2] for case, arrays in inputs.items()}
    assert [*lengths.values()] == [16, 16, 16, 0, 0, 9, 21, 0, 87]
    masks = {case: arrays["attention_mask"][:, : lengths[case]] for case, arrays in inputs.items()}
    assert {case for case, mask in masks.items() if not mask.all()} == {"left-padded", "next token"}
    for case in ("left-padded", "right-padded"):
        spec = next(in_case(part.spec, each) for each in cases(part.spec) if each.name == case)
        prompt = dummies(spec, {"past_sequence_length": 0, "sequence_length": lengths[case]})
        prompt |= {"attention_mask": masks[case], "position_ids": (masks[case].cumsum(axis=1) - 1).clip(0)}
        keys = torch_outputs(llama, part, prompt)[list(part.outputs).index("present.1.key")]
        assert np.array_equal(inputs[case]["past_key_values.1.key"], keys)


@pytest.mark.parametrize(("model_type", "task"), [("bert", "fill-mask"), ("llama", "text-generation")])
def test_a_file_without_a_cache_is_refused(request, model_type, task, tmp_path):
    model = request.getfixturevalue(model_type)
    result = onnxfn.export(onnxfn.spec_for(model_type, task), model, tmp_path / "model.onnx", check=False)
    message = refusal(onnxfn.ModelNotFound, generate, result, np.ones((1, 3)))
    assert "model.onnx is no decoder with past: it gives logits; export with a task such as" in message


def test_a_file_that_does_not_exist_is_refused(tmp_path):
    message = refusal(onnxfn.ModelNotFound, generate, tmp_path / "model.onnx", np.ones((1, 3)))
    assert message.endswith("model.onnx; name an ONNX file, or the folder of an export")


def test_the_name_of_a_present_output_follows_from_its_past_input(exported):
    past = [name for name in exported.inputs if name.startswith("past_")]
    assert {present_name(name) for name in past} == {name for name in exported.outputs if name != "logits"}


def test_a_model_with_recurrent_states_alone_decodes_texts(tmp_path):
    spec, model = tiny.spec_and_model("mamba2", "text-generation-with-past")
    result = onnxfn.export(spec, model, tmp_path / "out")
    assert "greedy tokens" in {difference.output for difference in result.report.differences}
    ids = np.random.default_rng(0).integers(2, 100, (2, 7))
    assert np.array_equal(generate(result, ids, max_new_tokens=8), decoded_by_torch(model, ids, np.ones_like(ids), 8))


# The arguments of `generate`

TASKS = {"llama": "text-generation-with-past", "t5": "text2text-generation-with-past"}


def spec_and_model(model_type):
    return tiny.spec_and_model(model_type, TASKS[model_type])


REFUSED = [
    ({"input_ids": [[-5]]}, "input_ids holds -5; a token is 0 or more"),
    ({"input_ids": [[]]}, "input_ids has the shape [1, 0]; each prompt has at least one token"),
    ({"input_ids": []}, "input_ids has the shape [0]; each prompt has at least one token"),
    ({"input_ids": [[1], [1, 2]]}, "input_ids has rows of different lengths; pad the shorter prompts on the left"),
    ({"input_ids": [["a text"]]}, "input_ids holds <U6, which are not numbers; pass the output of a tokenizer"),
    ({"input_ids": [[1, 2]], "attention_mask": [[1]]}, "attention_mask has the shape [1, 1], and input_ids [1, 2]"),
    (
        {"input_ids": [[1, 2]], "attention_mask": [[1, 7]]},
        "attention_mask holds other values than 0 for padding and 1 for tokens",
    ),
    ({"input_ids": [[1]], "stop": 5}, "stop is 5; pass token ids, such as (2,)"),
    ({"input_ids": [[1]], "max_new_tokens": -1}, "max_new_tokens is -1; pass a whole number, 0 or more"),
    ({"input_ids": [[1]], "max_new_tokens": 2.5}, "max_new_tokens is 2.5; pass a whole number, 0 or more"),
    ({"input_ids": [[1]], "stop": "end"}, "stop is 'end'; pass token ids, such as (2,)"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED, ids=range(len(REFUSED)))
@pytest.mark.parametrize("model_type", TASKS)
def test_prompts_that_no_model_can_have_are_refused(exports, model_type, arguments, message):
    assert refusal(onnxfn.InvalidSpec, onnxfn.generate, exports(model_type)[-1], **arguments) == message


@pytest.mark.parametrize(
    ("input_ids", "message"),
    [
        ([1, 2], "input_ids has the shape [2]; pass [batch, length], such as [[1, 2, 3]]"),
        ([[1.5]], "input_ids holds fractions, float64; pass token ids, which are integers"),
    ],
)
def test_prompts_of_a_decoder_are_texts_of_tokens(exports, input_ids, message):
    assert refusal(onnxfn.InvalidSpec, onnxfn.generate, exports("llama")[-1], input_ids) == message


def test_a_first_token_is_for_a_decoder_with_an_encoder(exports):
    message = "start is 1, and a decoder without an encoder starts with input_ids; leave it out"
    assert refusal(onnxfn.InvalidSpec, onnxfn.generate, exports("llama")[-1], [[1]], start=1) == message
    assert onnxfn.generate(exports("llama")[-1], [[1, 2]], max_new_tokens=0).tolist() == [[1, 2]]


@pytest.mark.parametrize(("model_type", "start"), [("llama", None), ("t5", 0)])
def test_a_token_that_the_model_does_not_have_is_refused_and_nothing_is_logged(exports, model_type, start, capfd):
    message = refusal(onnxfn.InvalidSpec, onnxfn.generate, exports(model_type)[-1], [[3, 5000]], start=start)
    assert message.startswith("ONNX Runtime cannot generate from input_ids of the shape [1, 2] with tokens from 3")
    assert "idx=5000 must be within the inclusive range" in message
    assert capfd.readouterr() == ("", "")


def test_any_integers_are_tokens(exports):
    llama = exports("llama")[-1]
    texts = [
        onnxfn.generate(llama, np.array([[3, 4]], dtype=dtype), np.array([[1, 1]], dtype=mask), stop=np.array([2]))
        for dtype, mask in [("int64", "int64"), ("int32", "bool"), ("uint8", "float32"), ("float64", "int64")]
    ]
    assert all(np.array_equal(text, texts[0]) for text in texts)

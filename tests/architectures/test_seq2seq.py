"""Tiny random encoder-decoders are exported, agree with PyTorch, and decode the tokens that PyTorch decodes."""

import json
import shutil

import numpy as np
import onnx
import pytest
import swept
import tiny
import torch
from agreement import assert_agreement
from graph_edits import at, edited_file
from refusals import refusal
from session_outputs import outputs_of
from sizes import SHARED
from structure_faults import past_ignored
from warm import warm

import onnxfn
from onnxfn.architectures import seq2seq
from onnxfn.run.greedy_decoding import most_likely_unused_token
from onnxfn.run.sessions import open_session
from onnxfn.specs.algebra.dummies import dummies
from onnxfn.specs.tasks.tasks import task_names

PAIRS = [(model_type, task) for model_type, row in seq2seq.ROWS.items() for task in task_names(row)]
STEPS = 8
DECODING_TASKS = ("text2text-generation-with-past", "automatic-speech-recognition-with-past", "image-to-text-with-past")
DECODING = [
    *((model_type, task) for model_type, task in PAIRS if task in DECODING_TASKS),
    ("musicgen", "text-to-audio-with-past"),
    ("trocr", "text-generation-with-past"),
]
"""The pairs whose greedy tokens are compared with those of PyTorch."""

SAMPLE = [
    ("bart", "text2text-generation"),
    ("bart", "question-answering"),
    ("marian", "text-generation-with-past"),
    ("whisper", "audio-classification"),
]
"""One of each kind of cache and of encoder, and two kinds of head."""


def export_checked(model_type, task, folder, *, decoders="merged", **overrides):
    """A tiny model, and its export, whose files agree with PyTorch and have the names and axes of the plan."""
    spec, model = tiny.spec_and_model(model_type, task, **overrides)
    return model, assert_agreement(onnxfn.export(spec, model, folder, decoders=decoders))


# Greedy tokens, decoded by these tests


def tokens_by_onnx(folder, part, states, mask, start):
    """The greedy tokens of a merged decoder. Keys and values of the encoder come from the first step."""
    decoder = open_session(folder / f"{part.name}.onnx")
    feeds = {"encoder_hidden_states": states, "encoder_attention_mask": mask}
    sizes = {"batch_size": len(states)}  # before the first token, the lengths are 0, that of the encoder too
    for input_ in decoder.get_inputs():
        if input_.name.startswith("past_key_values."):
            shape = [size if isinstance(size, int) else sizes.get(size, 0) for size in input_.shape]
            feeds[input_.name] = np.zeros(shape, "float32")
    feeds["input_ids"] = start
    tokens = start
    for step in range(STEPS):
        if "attention_mask" in part.inputs:
            feeds["attention_mask"] = np.ones_like(tokens)
        outputs = outputs_of(decoder, feeds)
        new = most_likely_unused_token(outputs["logits"][:, -1], tokens)[:, None]
        tokens = np.concatenate([tokens, new], axis=1)
        feeds |= {
            feedback.input: outputs[feedback.output]
            for feedback in part.spec.feedback
            if not step or ".encoder." not in feedback.input
        }
        feeds["input_ids"] = new
    return tokens


def assert_same_tokens(model, result, folder):
    encoder = result.plan.parts[0]
    (decoder,) = (part for part in result.plan.parts if part.name == "decoder_model_merged")
    source = dummies(encoder.spec, {"batch_size": 3}, seed=5)
    if "encoder_hidden_states" in encoder.inputs:  # a decoder without an encoder
        source = {name: array for name, array in source.items() if name.startswith("encoder_")}
    start = np.array([[2, 5], [3, 9], [7, 2]] * (len(dummies(decoder.spec, {"batch_size": 3})["input_ids"]) // 3))
    argument = next(input_.forward_path[0] for input_ in decoder.spec.inputs if input_.name == "input_ids")
    arguments = {name: torch.from_numpy(array) for name, array in source.items()}
    expected = start
    for _ in range(STEPS):  # without a cache, each token from all tokens before it
        with torch.no_grad():
            logits = model(**arguments, **{argument: torch.from_numpy(expected)}, use_cache=False).logits
        new = most_likely_unused_token(logits[:, -1].numpy(), expected)[:, None]
        expected = np.concatenate([expected, new], axis=1)
    if "encoder_hidden_states" in source:
        states, mask = source["encoder_hidden_states"], source["encoder_attention_mask"]
    else:
        session = open_session(folder / f"{encoder.name}.onnx")
        states, mask = outputs_of(session, source)["last_hidden_state"], source.get("attention_mask")
    assert tokens_by_onnx(folder, decoder, states, mask, start).tolist() == expected.tolist()


def assert_generates(model, result, exports, **options):
    model.generation_config.bad_words_ids = None
    source = dummies(result.plan.parts[0].spec, {"batch_size": 2}, seed=3)
    arguments = {name: torch.from_numpy(array) for name, array in source.items()}
    greedy = {"do_sample": False, "num_beams": 1, "eos_token_id": None, "forced_eos_token_id": None}
    with torch.no_grad():
        expected = model.generate(**arguments, **greedy, max_new_tokens=8).tolist()
    for exported in exports:
        assert onnxfn.generate(exported, *source.values(), max_new_tokens=8, **options).tolist() == expected


@pytest.mark.parametrize(("model_type", "task"), SAMPLE)
def test_an_encoder_decoder_agrees_with_pytorch(model_type, task, tmp_path):
    export_checked(model_type, task, tmp_path / "out")


def test_whisper_decodes_the_tokens_of_pytorch(tmp_path):
    exported = export_checked("whisper", "automatic-speech-recognition-with-past", tmp_path / "out")
    assert_same_tokens(*exported, tmp_path / "out")


@pytest.mark.parametrize("decoders", ["merged", "separate"])
def test_marian_generates_the_tokens_of_transformers(decoders, tmp_path):
    model, result = export_checked("marian", "text2text-generation-with-past", tmp_path / "out", decoders=decoders)
    if decoders == "merged":
        assert_same_tokens(model, result, tmp_path / "out")
    assert_generates(model, result, (result, tmp_path / "out"))


# One export of T5


@pytest.fixture(scope="module")
def t5(tmp_path_factory):
    folder = tmp_path_factory.mktemp("t5") / "out"
    return *export_checked("t5", "text2text-generation-with-past", folder), folder


def test_the_report_compares_greedy_tokens(t5):
    _, result, _ = t5
    (tokens,) = [difference for difference in result.report.differences if difference.output == "greedy tokens"]
    assert (tokens.part, set(tokens.shapes), tokens.passed) == ("decoder_model_merged", {(2, 22)}, True)


def test_the_check_finds_a_decoder_that_ignores_its_past(t5, tmp_path):
    model, _, folder = t5
    shutil.copytree(folder, tmp_path / "out")
    edited_file(tmp_path / "out" / "decoder_model_merged.onnx", at(past_ignored, "past_key_values.1.decoder.key"))
    report = onnxfn.validate(onnxfn.spec_for("t5", "text2text-generation-with-past"), model, tmp_path / "out")
    assert "greedy tokens" in {difference.output for difference in report.differences if not difference.passed}


def test_generate_needs_the_first_token_where_the_configuration_has_none(t5, tmp_path):
    shutil.copytree(t5[2], tmp_path / "out")
    (tmp_path / "out" / "generation_config.json").unlink(missing_ok=True)
    config = tmp_path / "out" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "decoder_start_token_id": None}))
    message = refusal(onnxfn.InvalidSpec, onnxfn.generate, tmp_path / "out", np.ones((1, 3), "int64"))
    assert message.endswith("has decoder_start_token_id; pass the first token: start=...")
    assert onnxfn.generate(tmp_path / "out", np.ones((1, 3), "int64"), max_new_tokens=2, start=5)[0, 0] == 5


def test_generate_needs_a_decoder_with_a_cache(tmp_path):
    spec = onnxfn.spec_for("t5", "text2text-generation")
    result = onnxfn.export(spec, tiny.model("t5", spec.call.loader), tmp_path / "out", check=False)
    message = refusal(onnxfn.ModelNotFound, onnxfn.generate, result, np.ones((1, 3), "int64"))
    assert message.endswith("generate knows: decoder_model_merged, decoder_model and decoder_with_past_model")


# Models of their own kinds


@pytest.mark.sweep
def test_long_t5_with_global_attention_reads_texts_shorter_than_a_block(tmp_path):
    options = {"encoder_attention_type": "transient-global", "global_block_size": 8}
    _, result = export_checked("longt5", "feature-extraction", tmp_path / "out", **options)
    assert any("encoder_sequence_length=7," in case for case in result.report.cases)


STREAMING = tiny.SPECIAL["moonshine_streaming"]["encoder_config"]


def assert_streams(folder, **options):
    """A tiny streaming Moonshine and its export, which decode the same tokens; the sound ends with a whole frame."""
    model, result = export_checked("moonshine_streaming", "automatic-speech-recognition-with-past", folder, **options)
    assert_same_tokens(model, result, folder)
    assert_generates(model, result, [result], start=1)
    return model, result


@pytest.mark.sweep
def test_streamed_speech_is_recognized_as_pytorch_does_and_ends_with_a_whole_frame(tmp_path):
    folder = tmp_path / "out"
    model, result = assert_streams(folder, encoder_config=STREAMING)
    assert result.plan.parts[0].inputs["input_values"] == {0: "batch_size", 1: "32 * num_frames"}
    source = {"input_values": np.ones((1, 200), "float32"), "attention_mask": np.ones((1, 200), "int64")}
    with pytest.raises(Exception, match="cannot be reshaped"):
        open_session(folder / "encoder_model.onnx").run(None, source)
    with pytest.raises(RuntimeError, match="is invalid for input of size 200"):
        model.get_encoder()(**{name: torch.from_numpy(array) for name, array in source.items()})


@pytest.mark.sweep
def test_streamed_speech_is_recognized_where_encoder_and_decoder_are_of_one_width(tmp_path):
    """Nothing projects then; frames have 5 ms, as those of trained models, and heads of 8 are padded."""
    encoder = {**STREAMING, "hidden_size": 32, "frame_ms": 5.0}
    assert_streams(tmp_path / "out", encoder_config=encoder, pad_head_dim_to_multiple_of=6)


def half(model_type, **options):
    return {"model_type": model_type, **tiny.SIZES, **options}


CROSS = {"add_cross_attention": True, "is_decoder": True}
SWIN = {
    "image_size": [24, 16],
    "patch_size": 2,
    "embed_dim": 8,
    "depths": [1, 1],
    "num_heads": [2, 2],
    "window_size": 2,
}
WAVES = tiny.SPECIAL["speech-encoder-decoder"]["encoder"]
ADAPTED = {"add_adapter": True, "num_adapter_layers": 1, "output_hidden_size": 32, "feat_extract_norm": "layer"}
HALVES = [
    ("vision-encoder-decoder", "image-to-text-with-past", "encoder", {"model_type": "donut-swin", **SWIN}),
    ("vision-encoder-decoder", "image-to-text-with-past", "decoder", tiny.SPECIAL["encoder-decoder"]["decoder"]),
    ("vision-encoder-decoder", "image-to-text-with-past", "decoder", half("bert", **CROSS)),
    ("vision-encoder-decoder", "image-to-text-with-past", "decoder", half("mbart", **SHARED["bart"], **CROSS)),
    ("encoder-decoder", "text2text-generation-with-past", "decoder", half("bert", **CROSS)),
    ("speech-encoder-decoder", "automatic-speech-recognition-with-past", "encoder", {**WAVES, **ADAPTED}),
    ("speech-encoder-decoder", "automatic-speech-recognition-with-past", "decoder", half("bert", **CROSS)),
]


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("model_type", "task", "side", "options"),
    HALVES,
    ids=lambda value: value["model_type"] if isinstance(value, dict) else value,
)
def test_an_encoder_and_a_decoder_of_other_kinds_decode_the_tokens_of_pytorch(
    model_type, task, side, options, tmp_path
):
    overrides = {**tiny.SPECIAL[model_type], side: options}
    assert_same_tokens(*export_checked(model_type, task, tmp_path / "out", **overrides), tmp_path / "out")


# The merged file


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    sizes = {"hidden_size": 256, "d_ff": 512, "vocab_size": 4000}
    spec, model = tiny.spec_and_model("t5", "text2text-generation-with-past", **sizes)
    onnxfn.export(spec, model, folder / "out", check=False)
    return model, folder / "out"


def test_a_merged_decoder_stores_every_weight_once(large):
    model, folder = large
    weights = {weight.data_ptr(): weight for module in (model.decoder, model.lm_head) for weight in module.parameters()}
    unique = sum(weight.numel() * weight.element_size() for weight in weights.values())
    assert (folder / "decoder_model_merged.onnx").stat().st_size <= 1.02 * unique


def test_the_only_branch_computes_the_keys_and_values_of_the_encoder(large):
    graph = onnx.load(large[1] / "decoder_model_merged.onnx").graph
    (branch,) = [node for node in graph.node if node.op_type == "If"]
    assert len(branch.output) == 2 * 2
    bodies = {attribute.name: attribute.g for attribute in branch.attribute}
    assert {node.op_type for node in bodies["else_branch"].node} == {"Identity"}
    assert [node.op_type for node in bodies["then_branch"].node].count("MatMul") == 2 * 2
    assert not any(body.initializer for body in bodies.values())
    assert "use_cache_branch" not in [input_.name for input_ in graph.input]


@pytest.mark.parametrize("model_type", [pytest.param("t5", marks=pytest.mark.sweep), "bart"])
def test_a_merged_decoder_in_half_precision_computes_an_empty_past(model_type, tmp_path):
    spec = onnxfn.spec_for(model_type, "text2text-generation-with-past")
    float16 = onnxfn.with_dtypes(spec, float="float16")
    assert onnxfn.export(float16, tiny.model(model_type, spec.call.loader), tmp_path / "out").report.passed


# The sweep


@pytest.mark.sweep
@pytest.mark.parametrize(("model_type", "task"), PAIRS)
def test_every_task_of_every_encoder_decoder_agrees_with_pytorch(model_type, task, tmp_path, only_left, record):
    only_left("seq2seq", model_type, task)
    warm()
    (model, result), seconds = swept.timed(export_checked, model_type, task, tmp_path / "out", decoders="both")
    if task.endswith("-with-past"):  # by default, one file of the decoder is written in place of three
        _, seconds = swept.timed(export_checked, model_type, task, tmp_path / "default")
    if (model_type, task) in DECODING:
        assert_same_tokens(model, result, tmp_path / "out")
    tokens = (f"{STEPS} greedy tokens equal",) if (model_type, task) in DECODING else ()
    record("seq2seq", model_type, task, swept.line(result, *tokens), set(PAIRS), seconds)


def test_the_recorded_results_are_of_this_table():
    assert swept.pairs("seq2seq") == set(PAIRS)

"""Encoder-decoders end to end: tiny random models go to ONNX, agree with PyTorch, and write what it writes.

The sweep takes every task of every row and writes `tests/sweeps/seq2seq.json`:
`python -m pytest -m sweep tests/architectures/test_seq2seq.py`.
"""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
import swept
import tiny
import torch
from agreement import assert_agreement
from refusals import refusal

import onnxfn
from onnxfn.architectures import seq2seq
from onnxfn.check.generation import most_likely_unused_token
from onnxfn.check.sessions import open_session
from onnxfn.specs.dummies import dummies
from onnxfn.specs.errors import InvalidSpec, ModelNotFound
from onnxfn.specs.tasks import task_names

PAIRS = [(model_type, task) for model_type, row in seq2seq.ROWS.items() for task in task_names(row)]
STEPS = 8
WRITES = ("text2text-generation-with-past", "automatic-speech-recognition-with-past", "image-to-text-with-past")
WRITERS = [
    *((model_type, task) for model_type, task in PAIRS if task in WRITES),
    ("musicgen", "text-to-audio-with-past"),
    ("trocr", "text-generation-with-past"),
]

# One of each kind of cache and of encoder, and each kind of head.
SAMPLE = [
    ("bart", "text2text-generation"),
    ("bart", "text-classification"),
    ("bart", "question-answering"),
    ("marian", "text-generation-with-past"),
    ("whisper", "audio-classification"),
]
SAMPLE_WRITERS = [("marian", "text2text-generation-with-past"), ("whisper", "automatic-speech-recognition-with-past")]


def agrees(model_type, task, folder, *, decoders="merged", **overrides):
    """An export that passed its check, whose files say what the plan says."""
    spec = onnxfn.spec_for(model_type, task)
    model = tiny.model(model_type, spec.call.loader, **overrides)
    return model, assert_agreement(onnxfn.export(spec, model, folder, decoders=decoders), folder)


# Two models in one


def part(model_type, **told):
    return {"model_type": model_type, **tiny.SIZES, **told}


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
PARTS = [
    ("vision-encoder-decoder", "image-to-text-with-past", "encoder", {"model_type": "donut-swin", **SWIN}),
    ("vision-encoder-decoder", "image-to-text-with-past", "decoder", tiny.SPECIAL["encoder-decoder"]["decoder"]),
    ("vision-encoder-decoder", "image-to-text-with-past", "decoder", part("bert", **CROSS)),
    ("vision-encoder-decoder", "image-to-text-with-past", "decoder", part("mbart", **tiny.BART, **CROSS)),
    ("encoder-decoder", "text2text-generation-with-past", "decoder", part("bert", **CROSS)),
    ("speech-encoder-decoder", "automatic-speech-recognition-with-past", "encoder", {**WAVES, **ADAPTED}),
    ("speech-encoder-decoder", "automatic-speech-recognition-with-past", "decoder", part("bert", **CROSS)),
]


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("model_type", "task", "side", "told"), PARTS, ids=lambda one: one["model_type"] if isinstance(one, dict) else one
)
def test_an_encoder_and_a_decoder_of_other_kinds_write_what_pytorch_writes(model_type, task, side, told, tmp_path):
    writes(model_type, task, tmp_path / "out", **{**tiny.SPECIAL[model_type], side: told})


# What is written


def named(run, names, feeds):
    wanted = {one.name for one in run.get_inputs()}
    return dict(zip(names, run.run(names, {name: feeds[name] for name in wanted}), strict=True))


def nothing(decoder, batch):
    """The cache before the first token: of length 0 along all that moves, the encoder's too."""
    sizes = {"batch_size": batch}
    return {
        one.name: np.zeros([size if isinstance(size, int) else sizes.get(size, 0) for size in one.shape], "float32")
        for one in decoder.get_inputs()
        if one.name.startswith("past_key_values.")
    }


def states_of(folder, encoder, read):
    """What the decoder reads of the encoder, by its file; a decoder that stands alone is given noise."""
    if "encoder_hidden_states" in read:
        return read["encoder_hidden_states"], read["encoder_attention_mask"]
    run = open_session(folder / f"{encoder.name}.onnx")
    return named(run, ["last_hidden_state"], read)["last_hidden_state"], read.get("attention_mask")


def written_by_onnx(folder, part, states, mask, start):
    """What the merged decoder writes: the encoder's keys and values of the first step are kept for all."""
    decoder = open_session(folder / f"{part.name}.onnx")
    feeds = {"encoder_hidden_states": states, "encoder_attention_mask": mask}
    feeds |= nothing(decoder, len(states)) | {"input_ids": start}
    tokens = start
    for step in range(STEPS):
        if "attention_mask" in part.inputs:
            feeds["attention_mask"] = np.ones_like(tokens)
        answer = named(decoder, list(part.outputs), feeds)
        new = most_likely_unused_token(answer["logits"][:, -1], tokens)[:, None]
        tokens = np.concatenate([tokens, new], axis=1)
        carried = {
            one.input: answer[one.output] for one in part.spec.feedback if not step or ".encoder." not in one.input
        }
        feeds |= carried | {"input_ids": new}
    return tokens


def written_by_pytorch(model, argument, read, start):
    """What the model writes when it reads all that it wrote again for each token, keeping nothing."""
    given = {name: torch.from_numpy(array) for name, array in read.items()}
    tokens = start
    for _ in range(STEPS):
        with torch.no_grad():
            logits = model(**given, **{argument: torch.from_numpy(tokens)}, use_cache=False).logits
        tokens = np.concatenate([tokens, most_likely_unused_token(logits[:, -1].numpy(), tokens)[:, None]], axis=1)
    return tokens


def writes_alike(model, result, folder):
    """What encoder and merged decoder write is what PyTorch writes."""
    encoder = result.plan.parts[0]
    (decoder,) = (one for one in result.plan.parts if one.name == "decoder_model_merged")
    read = dummies(encoder.spec, {"batch_size": 3}, seed=5)
    if "encoder_hidden_states" in encoder.inputs:  # a decoder alone
        read = {name: array for name, array in read.items() if name.startswith("encoder_")}
    rows = len(dummies(decoder.spec, {"batch_size": 3})["input_ids"])
    start = np.array([[2, 5], [3, 9], [7, 2]] * (rows // 3))
    argument = next(one.place[0] for one in decoder.spec.inputs if one.name == "input_ids")
    expected = written_by_pytorch(model, argument, read, start)
    assert written_by_onnx(folder, decoder, *states_of(folder, encoder, read), start).tolist() == expected.tolist()


def writes(model_type, task, folder, **overrides):
    model, result = agrees(model_type, task, folder, **overrides)
    writes_alike(model, result, folder)
    return result


def test_a_report_tells_that_a_decoder_wrote_of_what_its_encoder_read(tmp_path):
    _, result = agrees("t5", "text2text-generation-with-past", tmp_path / "out")
    (written,) = [one for one in result.report.differences if one.output == "greedy tokens"]
    assert (written.part, set(written.shapes), written.passed) == ("decoder_model_merged", {(2, 22)}, True)


def test_a_decoder_that_loses_its_past_is_convicted_by_what_it_writes(tmp_path):
    model, result = agrees("t5", "text2text-generation-with-past", tmp_path / "out")
    file = tmp_path / "out" / "decoder_model_merged.onnx"
    graph = onnx.load(file)
    for node in graph.graph.node:
        node.input[:] = ["nothing" if read == "past_key_values.1.decoder.key" else read for read in node.input]
    lost = ["past_key_values.1.decoder.key"] * 2
    graph.graph.node.insert(0, onnx.helper.make_node("Sub", lost, ["nothing"]))
    onnx.save(graph, file)
    report = onnxfn.validate(onnxfn.spec_for("t5", "text2text-generation-with-past"), model, result)
    assert "greedy tokens" in {one.output for one in report.differences if not one.passed}


def generated_by_pytorch(model, read, steps):
    given = {name: torch.from_numpy(array) for name, array in read.items()}
    with torch.no_grad():
        told = model.generate(
            **given, max_new_tokens=steps, do_sample=False, num_beams=1, eos_token_id=None, forced_eos_token_id=None
        )
    return told.numpy()


@pytest.mark.parametrize("decoders", ["merged", "separate"])
def test_generate_writes_what_an_encoder_decoder_of_pytorch_generates(decoders, tmp_path):
    spec = onnxfn.spec_for("marian", "text2text-generation-with-past")
    model = tiny.model("marian", spec.call.loader)
    model.generation_config.bad_words_ids = None
    result = onnxfn.export(spec, model, tmp_path / "out", decoders=decoders)
    read = dummies(result.plan.parts[0].spec, {"batch_size": 2}, seed=3)
    expected = generated_by_pytorch(model, read, 8)
    for exported in (result, tmp_path / "out"):
        tokens = onnxfn.generate(exported, read["input_ids"], read["attention_mask"], max_new_tokens=8)
        assert tokens.tolist() == expected.tolist()


def test_generate_needs_to_know_the_first_token_of_an_encoder_decoder(tmp_path):
    _, result = agrees("t5", "text2text-generation-with-past", tmp_path / "out")
    (tmp_path / "out" / "generation_config.json").unlink(missing_ok=True)
    config = tmp_path / "out" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "decoder_start_token_id": None}))
    told = refusal(InvalidSpec, onnxfn.generate, result, np.ones((1, 3), "int64"))
    assert told.endswith("has decoder_start_token_id; pass the first token: start=...")
    assert onnxfn.generate(result, np.ones((1, 3), "int64"), max_new_tokens=2, start=5)[0, 0] == 5


def test_generate_needs_a_decoder_that_keeps_a_past(tmp_path):
    _, result = agrees("t5", "text2text-generation", tmp_path / "out")
    told = refusal(ModelNotFound, onnxfn.generate, result, np.ones((1, 3), "int64"))
    assert told.endswith("generate knows: decoder_model_merged, decoder_model and decoder_with_past_model")


@pytest.mark.parametrize(("model_type", "task"), SAMPLE)
def test_an_encoder_decoder_agrees_with_pytorch(model_type, task, tmp_path):
    agrees(model_type, task, tmp_path / "out")


def test_long_t5_whose_tokens_all_see_every_block_reads_texts_shorter_than_one(tmp_path):
    told = {"encoder_attention_type": "transient-global", "global_block_size": 8}
    _, result = agrees("longt5", "feature-extraction", tmp_path / "out", **told)
    assert any("encoder_sequence_length=7," in case for case in result.report.cases)


@pytest.mark.parametrize(("model_type", "task"), SAMPLE_WRITERS)
def test_an_encoder_decoder_writes_what_pytorch_writes(model_type, task, tmp_path):
    writes(model_type, task, tmp_path / "out")


STREAMING = tiny.SPECIAL["moonshine_streaming"]["encoder_config"]


@pytest.mark.parametrize(
    "told",
    [
        {"encoder_config": STREAMING},
        # As wide as the decoder, so that nothing projects; frames of 5 ms, as trained ones have; heads of 8 are padded.
        {"encoder_config": {**STREAMING, "hidden_size": 32, "frame_ms": 5.0}, "pad_head_dim_to_multiple_of": 6},
    ],
    ids=["narrower", "as wide"],
)
def test_what_is_heard_in_frames_through_windows_is_written_as_pytorch_writes_it(told, tmp_path):
    folder = tmp_path / "out"
    model, result = agrees("moonshine_streaming", "automatic-speech-recognition-with-past", folder, **told)
    writes_alike(model, result, folder)
    read = dummies(result.plan.parts[0].spec, {"batch_size": 2}, seed=3)
    expected = generated_by_pytorch(model, read, 8)
    tokens = onnxfn.generate(result, read["input_values"], read["attention_mask"], max_new_tokens=8, start=1)
    assert tokens.tolist() == expected.tolist()


def test_a_sound_that_ends_within_a_frame_is_refused_by_the_file_as_by_the_model(tmp_path):
    model, result = agrees("moonshine_streaming", "automatic-speech-recognition", tmp_path / "out")
    assert result.inputs["input_values"] == {0: "batch_size", 1: "32 * num_frames"}
    read = {"input_values": np.ones((1, 200), "float32"), "attention_mask": np.ones((1, 200), "int64")}
    with pytest.raises(Exception, match="cannot be reshaped"):
        open_session(tmp_path / "out" / "encoder_model.onnx").run(None, read)
    with pytest.raises(RuntimeError, match="is invalid for input of size 200"):
        model.get_encoder()(**{name: torch.from_numpy(one) for name, one in read.items()})


def test_all_decoders_stand_beside_each_other_when_asked_for(tmp_path):
    _, result = agrees("t5", "feature-extraction-with-past", tmp_path / "out", decoders="both")
    stems = ("encoder_model", "decoder_model", "decoder_with_past_model", "decoder_model_merged")
    assert {path.stem for path in (tmp_path / "out").glob("*.onnx")} == set(stems)
    assert tuple(part.name for part in result.plan.parts) == stems


# The merged file


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A T5 whose weights outweigh its graph, exported without a check."""
    folder = tmp_path_factory.mktemp("large")
    spec = onnxfn.spec_for("t5", "text2text-generation-with-past")
    model = tiny.model("t5", spec.call.loader, hidden_size=256, d_ff=512, vocab_size=4000)
    onnxfn.export(spec, model, folder / "out", check=False)
    return model, folder / "out"


def test_a_merged_decoder_holds_every_weight_once(large):
    model, folder = large
    weights = {one.data_ptr(): one for module in (model.decoder, model.lm_head) for one in module.parameters()}
    unique = sum(one.numel() * one.element_size() for one in weights.values())
    assert (folder / "decoder_model_merged.onnx").stat().st_size <= 1.02 * unique


def test_the_only_branch_is_that_of_the_encoders_keys_and_values(large):
    graph = onnx.load(large[1] / "decoder_model_merged.onnx").graph
    (branch,) = [node for node in graph.node if node.op_type == "If"]
    assert len(branch.output) == 2 * 2
    bodies = {one.name: one.g for one in branch.attribute}
    assert {node.op_type for node in bodies["else_branch"].node} == {"Identity"}
    assert [node.op_type for node in bodies["then_branch"].node].count("MatMul") == 2 * 2
    assert not any(body.initializer for body in bodies.values())


def test_a_merged_decoder_takes_no_word_on_which_branch(large):
    names = [one.name for one in onnx.load(large[1] / "decoder_model_merged.onnx").graph.input]
    assert "use_cache_branch" not in names


@pytest.mark.parametrize("model_type", ["t5", "bart"])
def test_a_merged_decoder_in_half_precision_computes_what_comes_empty(model_type, tmp_path):
    spec = onnxfn.spec_for(model_type, "text2text-generation-with-past")
    half = onnxfn.with_dtypes(spec, float="float16")
    assert onnxfn.export(half, tiny.model(model_type, spec.call.loader), tmp_path / "out").report.passed


# The sweep


@pytest.mark.sweep
@pytest.mark.parametrize(("model_type", "task"), PAIRS)
def test_every_task_of_every_encoder_decoder_agrees_with_pytorch(model_type, task, tmp_path, only_left, record):
    only_left("seq2seq", model_type, task)
    model, result = agrees(model_type, task, tmp_path / "out", decoders="both")
    if (model_type, task) in WRITERS:
        writes_alike(model, result, tmp_path / "out")
    tokens = (f"{STEPS} greedy tokens equal",) if (model_type, task) in WRITERS else ()
    record("seq2seq", model_type, task, swept.line(result, *tokens), set(PAIRS))


def test_the_last_sweep_in_the_repository_is_of_this_table():
    """A row that was added or lost a task since then has not been swept."""
    assert swept.pairs("seq2seq") == set(PAIRS)

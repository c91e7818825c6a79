"""A cache in buffers of one length (TensorScatter and Attention of opset 24), against PyTorch without a cache."""

from functools import partial

import numpy as np
import onnx
import onnxruntime
import pytest
import tiny
import torch
from command_line import exported_checkpoint
from refusals import refusal

import onnxfn
from onnxfn import InvalidSpec, plan, spec_for, with_dtypes, with_opset, with_shapes
from onnxfn.edits import with_static_cache
from onnxfn.run import generation
from onnxfn.run.greedy_decoding import greedy, most_likely_unused_token

TASK, LENGTH, NEW = "text-generation-with-past", 70, 64
CAUSAL = ("AutoModelForCausalLM", TASK)
HYBRIDS = ("bamba", "qwen3_next")  # one of their two layers has attention
KINDS = {
    "llama": (*CAUSAL, {"initializer_range": 0.15}),
    "gemma2": (*CAUSAL, {"initializer_range": 0.15, "sliding_window": 8}),
    **dict.fromkeys(HYBRIDS, (*CAUSAL, {"initializer_range": 0.15})),
    "t5": ("AutoModelForSeq2SeqLM", "text2text-generation-with-past", {}),
    "whisper": ("AutoModelForSpeechSeq2Seq", "automatic-speech-recognition-with-past", {"max_target_positions": 96}),
}
FIXED = {
    **{name: {"sequence_length": 1} for name in ("llama", "gemma2", *HYBRIDS)},
    "t5": {"decoder_sequence_length": 1, "encoder_sequence_length": 6},
    "whisper": {"decoder_sequence_length": 1, "encoder_sequence_length": 15},
}
"""The axes of a graph for one token, besides the batch."""


def exported(model_type, folder, edit=lambda spec: spec):
    """An export with a static cache, and the model."""
    name, task, sizes = KINDS[model_type]
    model = tiny.model(model_type, name, **sizes)
    return onnxfn.export(edit(with_static_cache(spec_for(model_type, task), LENGTH)), model, folder / "out"), model


def inputs_of(model, count):
    """Prompts, the first padded on the left; the texts or sounds of an encoder."""
    random, config = np.random.default_rng(0), model.config
    if config.model_type == "whisper":
        return random.standard_normal((count, config.num_mel_bins, 30)).astype(np.float32), None
    mask = np.ones((count, 6), np.int64)
    mask[: count - 1, : 0 if config.is_encoder_decoder else 3] = 0
    return random.integers(3, 99, mask.shape), mask


def tokens_of_pytorch(model, inputs, mask):
    """The texts that a model continues without a cache; no text has a token twice."""
    states = model.get_encoder()(torch.tensor(inputs)) if model.config.is_encoder_decoder else None
    ids = inputs if states is None else np.full((len(inputs), 1), model.config.decoder_start_token_id)
    for _ in range(NEW):
        if states is not None:
            logits = model(decoder_input_ids=torch.tensor(ids), encoder_outputs=states).logits
        else:
            every = np.pad(mask, ((0, 0), (0, ids.shape[1] - mask.shape[1])), constant_values=1)
            positions = torch.tensor((every.cumsum(1) - 1).clip(0))
            logits = model(torch.tensor(ids), attention_mask=torch.tensor(every), position_ids=positions).logits
        ids = np.concatenate([ids, most_likely_unused_token(logits[:, -1].detach().numpy(), ids)[:, None]], 1)
    return ids


@pytest.mark.parametrize("is_fixed", [False, True])
@pytest.mark.parametrize("model_type", KINDS)
def test_64_tokens_are_those_of_pytorch_and_no_token_is_written_past_the_end(
    model_type, is_fixed, tmp_path, monkeypatch
):
    edit = with_shapes(batch_size=1, **FIXED[model_type]) if is_fixed else lambda spec: spec
    result, model = exported(model_type, tmp_path, edit)
    assert result.report.passed
    monkeypatch.setattr(generation, "greedy", partial(greedy, choose=most_likely_unused_token))
    inputs, mask = inputs_of(model, 1 if is_fixed else 2)
    start = {"start": model.config.decoder_start_token_id} if model.config.is_encoder_decoder else {}
    texts = onnxfn.generate(result, inputs, mask, max_new_tokens=NEW, **start)
    assert texts.tolist() == tokens_of_pytorch(model, inputs, mask).tolist()
    message = refusal(InvalidSpec, onnxfn.generate, result, inputs, mask, max_new_tokens=LENGTH + 1, **start)
    assert f"the static cache holds {LENGTH} tokens" in message
    assert "--static-cache" in message
    for part in result.plan.parts:
        graph = onnx.load(tmp_path / "out" / f"{part.name}.onnx", load_external_data=False).graph
        sizes = [size for value in (*graph.input, *graph.output) for size in value.type.tensor_type.shape.dim]
        assert not is_fixed or not any(size.dim_param for size in sizes)
        assert not is_fixed or "Shape" not in {node.op_type for node in graph.node}
        scatters = [node for node in graph.node if node.op_type == "TensorScatter"]
        own = [node for node in graph.node if node.op_type == "Attention" and len(node.input) > 6 and node.input[6]]
        layers = (1 if model_type in HYBRIDS else 2) * ("write_indices" in part.inputs)
        assert len(scatters) == 2 * len(own) == 2 * layers


def test_past_and_present_may_be_one_memory_that_begins_with_garbage(tmp_path):
    """The prompt is read in two steps."""
    result, model = exported("llama", tmp_path, with_dtypes(float="float32"))
    session = onnxruntime.InferenceSession(tmp_path / "out" / "model.onnx", providers=["CPUExecutionProvider"])
    shapes = {port.name: port.shape for port in session.get_inputs()}
    ids, written, binding = np.random.default_rng(0).integers(3, 99, (1, 9)), 0, session.io_binding()
    for each in result.plan.parts[0].spec.feedback:
        garbage = onnxruntime.OrtValue.ortvalue_from_numpy(np.full((1, *shapes[each.input][1:]), 7e3, np.float32))
        binding.bind_ortvalue_input(each.input, garbage)
        binding.bind_ortvalue_output(each.output, garbage)
    for new in np.split(ids, [6], axis=1):
        known = written + new.shape[1]
        binding.bind_cpu_input("input_ids", np.ascontiguousarray(new))
        binding.bind_cpu_input("position_ids", np.arange(written, known)[None])
        binding.bind_cpu_input("attention_mask", (np.arange(LENGTH) < known)[None].astype(np.int64))
        binding.bind_cpu_input("write_indices", np.array([written]))
        binding.bind_output("logits")
        session.run_with_iobinding(binding)
        written = known
    logits = next(value for value in binding.copy_outputs_to_cpu() if value.ndim == 3)
    assert np.abs(logits - model(torch.tensor(ids)).logits[:, -3:].detach().numpy()).max() < 1e-4


# Convolutions beside the cache (lfm2), latents (deepseek_v3), a bias by distance (bloom), half precision.
@pytest.mark.parametrize(
    ("model_type", "dtype"),
    [("lfm2", "float32"), ("deepseek_v3", "float32"), ("bloom", "float32"), ("llama", "float16")],
)
def test_other_caches_agree_with_pytorch(model_type, dtype, tmp_path):
    model = tiny.model(model_type, "AutoModelForCausalLM")
    spec = with_dtypes(with_static_cache(spec_for(model_type, TASK), LENGTH), float=dtype)
    assert onnxfn.export(spec, model, tmp_path / "out").report.passed


def test_a_model_that_counts_positions_from_the_end_of_its_buffers_is_refused(tmp_path):
    """GPT-Neo's window: transformers computes the same with such buffers, and other logits without."""
    model = tiny.model("gpt_neo", CAUSAL[0], window_size=5, initializer_range=0.15)
    spec = with_static_cache(spec_for("gpt_neo", TASK), LENGTH)
    assert " away from PyTorch" in refusal(onnxfn.CheckFailed, onnxfn.export, spec, model, tmp_path / "out")


def test_an_earlier_opset_is_refused_in_the_plan():
    spec = with_opset(with_static_cache(spec_for("llama", TASK), LENGTH), 23)
    assert "needs opset 24 or later" in refusal(InvalidSpec, plan, spec, tiny.config("llama"))


def test_buffers_longer_than_the_positions_are_refused_or_a_remark():
    specs = {name: with_static_cache(spec_for(name, TASK), LENGTH) for name in ("gpt2", "llama")}
    gpt2 = tiny.model("gpt2", CAUSAL[0], max_position_embeddings=32)
    words = "transformer.wpe has 32 positions, and a static cache of 70 tokens is longer"
    assert words in refusal(InvalidSpec, onnxfn.export, specs["gpt2"], gpt2)
    llama = tiny.model("llama", CAUSAL[0], max_position_embeddings=32)
    remarks = onnxfn.export(specs["llama"], llama, check="none").plan.remarks
    assert "the static cache has 70 tokens, and max_position_embeddings is 32" in remarks


def test_the_command_line_takes_the_length(tmp_path):
    words = ("--task", TASK, "--static-cache", "64", "--no-check", "--no-template-cache")
    exported_checkpoint(tiny.model("llama", "AutoModelForCausalLM"), tmp_path, *words)
    graph = onnx.load(next((tmp_path / "out").rglob("model.onnx")), load_external_data=False).graph
    assert [size.dim_value for size in graph.output[1].type.tensor_type.shape.dim][2] == 64

"""Rotary embeddings whose frequencies depend on the largest position agree on both sides of the threshold."""

import other_sizes
import pytest
import tiny
import torch

import onnxfn
from onnxfn.architectures.patch_table import rotary_patches
from onnxfn.check.check import check
from onnxfn.models.model_state import model_copy, unchanged_eval
from onnxfn.models.patching import applied
from onnxfn.specs.algebra.dummies import padded, sized
from onnxfn.specs.algebra.facts import case

THRESHOLD = 40
"""The length of the texts of the training. The trace has fewer tokens, and so have the cases of short texts."""

SHAPE = {"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
FACTORS = {"short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [1.1, 1.5, 2.0, 4.0]}
LONGROPE = {"rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": THRESHOLD, **FACTORS}
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}
LONG = {"max_position_embeddings": 1024, "original_max_position_embeddings": THRESHOLD}
MODELS = {
    "phi3": {**LONG, "rope_parameters": {**LONGROPE, "factor": 32.0}},
    "phimoe": {**LONG, "rope_parameters": {**LONGROPE, "short_mscale": 1.1, "long_mscale": 1.3}},
    "llama": {"max_position_embeddings": THRESHOLD, "rope_parameters": DYNAMIC},
    "gemma3_text": {
        "max_position_embeddings": 1024,
        "layer_types": ["sliding_attention", "full_attention"],
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
            "full_attention": {**LONGROPE, "factor": 4.0},
        },
    },
}
"""Model type -> the arguments of its configuration."""

SIZES = {
    "short": (2, 0, 7),
    "as long as the threshold": (1, 0, THRESHOLD),
    "one token longer": (1, 0, THRESHOLD + 1),
    "far longer": (2, 0, 300),
    "the past reaches the threshold": (1, THRESHOLD - 1, 1),
    "the new token crosses it": (1, THRESHOLD, 1),
    "new tokens cross it": (2, THRESHOLD - 5, 11),
    "the past is beyond it": (1, 200, 3),
}
"""The batch size, the length of the past, and that of the text in each case."""


def cases_of(spec, model):
    edits = [
        case(name, padded("left"), sized(batch_size=batch, past_sequence_length=past, sequence_length=length))
        for name, (batch, past, length) in SIZES.items()
    ]
    (part,) = onnxfn.plan(onnxfn.compose(spec, *edits), model).parts
    return tuple(each for each in part.spec.cases if each.name in SIZES)


@pytest.mark.parametrize("model_type", MODELS)
def test_a_file_agrees_on_both_sides_of_the_threshold(model_type, tmp_path):
    model = tiny.model(model_type, "AutoModelForCausalLM", **{**SHAPE, **MODELS[model_type]})
    spec = onnxfn.spec_for(model, "text-generation-with-past")
    (part,) = onnxfn.export(spec, model, tmp_path / "out", check=False).plan.parts
    part = other_sizes.with_cases(part, cases_of(spec, model))
    report = check(model_copy(model), part, tmp_path / "out/model.onnx")
    assert [label.partition(" (")[0] for label in report.cases[: len(SIZES)]] == [*SIZES]
    assert report.passed, report


def test_a_model_that_has_read_a_long_text_is_checked_as_one_that_has_not(tmp_path):
    """With dynamic scaling it keeps the frequencies of that text."""
    model = tiny.model("llama", "AutoModelForCausalLM", **{**SHAPE, **MODELS["llama"]})
    spec = onnxfn.spec_for(model, "text-generation-with-past")
    with torch.no_grad():
        model(torch.ones(1, 700, dtype=torch.int64))
    frequencies, longest = model.model.rotary_emb.inv_freq, model.model.rotary_emb.max_seq_len_cached
    assert onnxfn.export(spec, model, tmp_path / "out").report.passed
    assert model.model.rotary_emb.inv_freq is frequencies
    assert model.model.rotary_emb.max_seq_len_cached is longest


def test_phi_4_multimodal_has_the_patch_and_the_same_angles():
    from transformers.models.phi4_multimodal import modeling_phi4_multimodal as phi4

    config = phi4.Phi4MultimodalConfig(
        hidden_size=32, num_attention_heads=4, num_key_value_heads=2, rope_parameters=LONGROPE, **LONG
    )
    module = torch.nn.ModuleList([phi4.Phi4MultimodalRotaryEmbedding(config)])
    assert [patch.by for patch in rotary_patches(module)] == ["attention.scaled_angles"]
    for length in (1, THRESHOLD, THRESHOLD + 1, 300):
        arguments = torch.zeros(1), torch.arange(length)[None]
        with unchanged_eval(module), applied(rotary_patches(module)):
            patched = module[0](*arguments)
        for own, other in zip(module[0](*arguments), patched, strict=True):
            assert torch.equal(own, other)


def test_a_model_without_such_a_scaling_has_no_patch():
    assert rotary_patches(tiny.model("llama")) == ()

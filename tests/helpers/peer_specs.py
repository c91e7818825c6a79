"""Specs of pairs whose parts in onnxfn PyTorch does not run, or that onnxfn refuses: what the peer exports instead."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve

import onnxfn
from onnxfn import ExportSpec, compose, gives, takes
from onnxfn.specs.dummies import generates, sized
from onnxfn.specs.facts import TOKENS, always
from onnxfn.specs.getters import reads


def _whole(model_type: str) -> ExportSpec:
    """An encoder-decoder in one file: texts to logits."""
    features = onnxfn.spec_for(model_type, "feature-extraction")
    logits = gives("logits", "batch_size decoder_sequence_length vocab_size=")
    return evolve(features, outputs=logits.outputs, call=evolve(features.call, loader=None))


TRANSCRIPT = compose(
    takes("input_ids", TOKENS, "token_ids"),
    takes("input_features", "batch_size num_mel_bins= 8*sequence_length", "sound", kind="float"),
    generates("token_ids", "integers", high=64),
    generates("sound", "normal"),
    reads(num_mel_bins="audio_config.num_mel_bins"),
    always(use_cache=False, return_dict=True),
    sized(batch_size=2, sequence_length=12),
    gives("last_hidden_state", f"{TOKENS} _"),
)
"""Eight frames of a sound for each token."""

SPECS: Mapping[tuple[str, str], ExportSpec] = {
    ("nllb-moe", "text2text-generation"): _whole("m2m_100"),
    ("voxtral_realtime", "feature-extraction"): TRANSCRIPT,
}

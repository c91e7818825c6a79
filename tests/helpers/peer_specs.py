"""Specs of pairs whose parts in onnxfn PyTorch does not run, or that onnxfn refuses: what the peer exports instead."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve

import onnxfn
from onnxfn import ExportSpec, compose, gives, takes
from onnxfn.specs.dummies import generates, sized
from onnxfn.specs.facts import TOKENS, always, case
from onnxfn.specs.getters import constant, from_config, power, product, reads


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

PATCHES_OF_TEXTS = compose(
    takes("input_ids", TOKENS, "token_ids"),
    takes("attention_mask", TOKENS, "padding_mask"),
    takes("pixel_values", "num_patches patch_width=", "patches", kind="float"),
    generates(
        "token_ids",
        "ids_with_image",
        high=from_config("vocab_size"),
        image=from_config("image_token_id"),
        count=constant(8),
    ),
    generates("padding_mask", "mask", shortest=9),
    generates("patches", "normal"),
    reads(
        vocab_size="vocab_size",
        image_token_id="image_token_id",
        patch_width=product(constant(3), power("patch_size", constant(2))),
    ),
    sized(batch_size=2, sequence_length=12, num_patches=16),
    case("one", sized(batch_size=1, sequence_length=9, num_patches=8)),
    case("several", sized(batch_size=3, sequence_length=17, num_patches=24)),
    gives("last_hidden_state", f"{TOKENS} _"),
)
"""Texts that begin with eight placeholders each, and a patch of an image for each of these."""

SPECS: Mapping[tuple[str, str], ExportSpec] = {
    ("neomme", "feature-extraction"): PATCHES_OF_TEXTS,
    ("nllb-moe", "text2text-generation"): _whole("m2m_100"),
    ("voxtral_realtime", "feature-extraction"): TRANSCRIPT,
}

"""Exports the folder of a checkpoint with transformers.exporters, with explicit dynamic axes and without a check.

    python by_exporters.py FOLDER OUT KIND

Runs in the peer's own environment and imports nothing of onnxfn. The peer itself splits encoder-decoders.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
import transformers
from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter

DYNAMIC = torch.export.Dim.DYNAMIC
OPSET = 18


def main(folder: str, out: str, kind: str) -> None:
    torch.manual_seed(0)
    config = transformers.AutoConfig.from_pretrained(folder)
    loader = transformers.AutoModel if kind == "encoder" else getattr(transformers, config.architectures[0])
    model = loader.from_pretrained(folder, dtype=torch.float32).eval()
    exported = {"encoder": encoder, "image": image, "decoder": decoder}.get(kind, encoder_decoder)(model)
    exported.save_pretrained(out)


def encoder(model: Any) -> Any:
    ids = torch.randint(5, 99, (2, 16))
    sample = {"input_ids": ids, "attention_mask": mask(ids), "token_type_ids": torch.zeros_like(ids)}
    return with_axes(model, sample, {name: {0: DYNAMIC, 1: DYNAMIC} for name in sample})


def image(model: Any) -> Any:
    config = model.config
    pixels = torch.randn(2, config.num_channels, config.image_size, config.image_size)
    return with_axes(model, {"pixel_values": pixels}, {"pixel_values": {0: DYNAMIC}})


def decoder(model: Any) -> Any:
    """Exports a decoder with 16 new tokens and a past of 16: one graph for the prompt and for later tokens."""
    config = model.config
    shape = (2, config.num_key_value_heads, 16, config.head_dim)
    layers = config.num_hidden_layers
    cache = transformers.DynamicCache([(torch.randn(shape), torch.randn(shape)) for _ in range(layers)])
    sample = {
        "input_ids": torch.randint(5, 99, (2, 16)),
        "attention_mask": mask(torch.zeros(2, 32)),
        "position_ids": torch.arange(16, 32).repeat(2, 1),
        "past_key_values": cache,
    }
    dynamic = {name: {0: DYNAMIC, 1: DYNAMIC} for name in ("input_ids", "attention_mask", "position_ids")}
    return with_axes(model, sample, {**dynamic, "past_key_values": [{0: DYNAMIC, 2: DYNAMIC}] * (2 * layers)})


def encoder_decoder(model: Any) -> Any:
    """Exports the encoder, and the decoder as two graphs: for the first token and for the others."""
    config = model.config
    if model.main_input_name == "input_features":
        sample = {"input_features": torch.randn(2, config.num_mel_bins, 2 * config.max_source_positions)}
    else:
        ids = torch.randint(5, 99, (2, 16))
        sample = {"input_ids": ids, "attention_mask": mask(ids)}
    dynamic = {name: {0: DYNAMIC} if name == "input_features" else {0: DYNAMIC, 1: DYNAMIC} for name in sample}
    encoder_ = with_axes(model.get_encoder(), sample, dynamic)
    # Without `multi_token_decode` the length of the past is fixed at its traced size.
    decoders = OnnxExporter().export_for_generation(
        model, sample, OnnxConfig(dynamic=True, opset_version=OPSET), multi_token_decode=True
    )
    decoders.components["encoder"] = encoder_.components["model"]
    return decoders


def with_axes(model: Any, sample: dict[str, Any], axes: dict[str, Any]) -> Any:
    return OnnxExporter().export(model, sample, OnnxConfig(dynamic_shapes=axes, opset_version=OPSET))


def mask(like: Any) -> Any:
    """A mask with padding. Without padding the peer drops the input."""
    ones = torch.ones(like.shape, dtype=torch.int64)
    ones[1, :3] = 0
    return ones


if __name__ == "__main__":
    main(*sys.argv[1:])

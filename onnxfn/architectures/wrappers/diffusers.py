"""The encoder and the decoder of the autoencoders of diffusers, each one graph."""

from __future__ import annotations

from typing import Any

from onnxfn.architectures.wrappers.modules import module


def vae_encoder(model: Any) -> Any:
    """Image -> mean and log variance of the latent distribution, concatenated along the channels."""
    return module(lambda sample: {"latent_parameters": model.encode(sample).latent_dist.parameters})


def dcae_encoder(model: Any) -> Any:
    """Image -> latent sample."""
    return module(lambda sample: {"latent_sample": model.encode(sample).latent})


def vae_decoder(model: Any) -> Any:
    """Latent sample -> image."""
    return module(lambda latent_sample: {"sample": model.decode(latent_sample).sample})

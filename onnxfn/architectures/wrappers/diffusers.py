"""The encoder and the decoder of the autoencoders of diffusers, each one graph."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from onnxfn.architectures.wrappers.modules import module


def vae_encoder(model: Any) -> Any:
    """Image -> mean and log variance of the latent distribution, concatenated along the channels."""

    def forward(sample: Tensor) -> dict[str, Tensor]:
        return {"latent_parameters": model.encode(sample).latent_dist.parameters}

    return module(forward)


def dcae_encoder(model: Any) -> Any:
    """Image -> latent sample."""

    def forward(sample: Tensor) -> dict[str, Tensor]:
        return {"latent_sample": model.encode(sample).latent}

    return module(forward)


def vae_decoder(model: Any) -> Any:
    """Latent sample -> image."""

    def forward(latent_sample: Tensor) -> dict[str, Tensor]:
        return {"sample": model.decode(latent_sample).sample}

    return module(forward)

"""The two halves of the autoencoders of diffusers, each a graph."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from onnxfn.architectures.wrappers.modules import module


def vae_encoder(model: Any) -> Any:
    """From a picture to the mean and the logarithm of the variance of what stands for it, both in one tensor."""

    def forward(sample: Tensor) -> dict[str, Tensor]:
        return {"latent_parameters": model.encode(sample).latent_dist.parameters}

    return module(forward)


def dcae_encoder(model: Any) -> Any:
    """From a picture to what stands for it."""

    def forward(sample: Tensor) -> dict[str, Tensor]:
        return {"latent_sample": model.encode(sample).latent}

    return module(forward)


def vae_decoder(model: Any) -> Any:
    """From what stands for a picture to the picture."""

    def forward(latent_sample: Tensor) -> dict[str, Tensor]:
        return {"sample": model.decode(latent_sample).sample}

    return module(forward)

"""The parts of a model that also draws, by tokens of images (Janus).

Its language model writes states. One head makes tokens of texts of them, another one codes of images. A table embeds
codes for the next step, and a decoder turns all codes of an image into pixels.

Source: "Janus: Decoupling Visual Encoding for Unified Multimodal Understanding and Generation", arXiv 2410.13848.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from onnxfn.architectures.wrappers.modules import module


def prepared_embeddings(model: Any) -> Any:
    """Tokens and images -> embeddings with features in the places that a mask marks; there may be no image.

    Places beyond the last feature repeat it: a graph cannot refuse a mask with more places than there are features.
    """

    def forward(input_ids: Tensor, pixel_values: Tensor, images_seq_mask: Tensor) -> dict[str, Tensor]:
        tokens = model.get_input_embeddings()(input_ids)
        seen = model.model.get_image_features(pixel_values.flatten(0, 1), return_dict=True).pooler_output
        rows = torch.cat([torch.zeros_like(tokens[0, :1]), seen.flatten(0, 1)])
        counted = images_seq_mask.flatten().cumsum(0).view_as(images_seq_mask)
        number = torch.where(images_seq_mask, counted, 0).clamp(max=rows.shape[0] - 1)
        return {"inputs_embeds": torch.where(images_seq_mask.unsqueeze(-1), rows[number], tokens)}

    return module(forward)


def language_model(model: Any) -> Any:
    """Embeddings and a cache -> states, without a head."""
    return model.model.language_model


def lm_head(model: Any) -> Any:
    """States -> logits of tokens of texts."""
    return module(lambda last_hidden_state: {"logits": model.lm_head(last_hidden_state)})


def gen_head(model: Any) -> Any:
    """States -> logits of codes of images."""
    return module(lambda last_hidden_state: {"logits": model.model.generation_head(last_hidden_state)})


def gen_img_embeds(model: Any) -> Any:
    """Codes of images -> embeddings."""
    return module(lambda image_ids: {"inputs_embeds": model.prepare_embeddings_for_image_generation(image_ids)})


def image_decode(model: Any) -> Any:
    """All codes of each image -> its pixels, `[images, channels, height, width]`."""
    return module(
        lambda generated_tokens: {"decoded_image": model.decode_image_tokens(generated_tokens).permute(0, 3, 1, 2)}
    )

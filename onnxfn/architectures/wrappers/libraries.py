"""Models of sentence-transformers, with named outputs."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from onnxfn.architectures.wrappers.modules import module


def text_and_image_encoder(model: Any) -> Any:
    """Texts and images, any number of each -> their embeddings. Each runs separately through all of the model."""

    def forward(pixel_values: Tensor, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        texts = {"input_ids": input_ids, "attention_mask": attention_mask, "modality": "text"}
        images = {"pixel_values": pixel_values, "modality": "image"}
        return {
            "text_embeds": model(texts)["sentence_embedding"],
            "image_embeds": model(images)["sentence_embedding"],
        }

    return module(forward)

"""Models of sentence-transformers, with named outputs."""

from typing import Any

from torch import Tensor


def text_and_image_encoder(
    model: Any, pixel_values: Tensor, input_ids: Tensor, attention_mask: Tensor
) -> dict[str, Tensor]:
    """Texts and images, any number of each -> their embeddings. Each runs separately through all of the model."""
    texts = {"input_ids": input_ids, "attention_mask": attention_mask, "modality": "text"}
    images = {"pixel_values": pixel_values, "modality": "image"}
    return {"text_embeds": model(texts)["sentence_embedding"], "image_embeds": model(images)["sentence_embedding"]}

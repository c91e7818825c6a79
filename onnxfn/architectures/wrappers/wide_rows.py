"""Rows with more than an embedding, for models whose decoder needs more facts about images.

A row is `[embedding | DeepStack 1 | ... | DeepStack D | mark]`. DeepStack features are added to the states after the
first D layers (Qwen3-VL); the mark is 1 for an image and 0 for a token, as tokens of an image see each other (Gemma 3).
Rows of tokens have zeros there. Programs copy whole rows in place of placeholder tokens, so they need not know.

Source: "DeepStack: Deeply Stacking Visual Tokens is Surprisingly Simple and Effective for LMMs", arXiv 2406.04334.
"""

import inspect
import sys
from typing import Any

import torch
from attrs import frozen
from torch import Tensor

from onnxfn.architectures.placeholders import PLACES
from onnxfn.architectures.private.renamed import called
from onnxfn.architectures.wrappers.modules import changed_inputs, module

TYPES = ("token_type_ids", "mm_token_type_ids")
"""The arguments of `forward` that mark the tokens of images."""


@frozen
class Width:
    """What a row has after the embedding: a number of DeepStack features, and the mark for an argument, if any."""

    deep: int = 0
    types: str = ""


def width_of(model: Any) -> Width:
    """The contents of the rows of a model after the embedding."""
    sections = getattr(model.config, "vision_config", None)
    layers = getattr(sections, "deepstack_visual_indexes", None) or ()
    deep = len(layers) if deep_decoder(model) is not None else 0
    sees_blocks = hasattr(sys.modules[type(model).__module__], "get_block_sequence_ids_for_mask")
    parameters = inspect.signature(model.forward).parameters
    # Kosmos-2.5 adds the embedding of a segment to each row.
    if PLACES in parameters and any(name.endswith("segment_emb") for name, _ in model.named_modules()):
        return Width(deep, PLACES)
    return Width(deep, next((name for name in TYPES if name in parameters), "") if sees_blocks else "")


def deep_decoder(model: Any) -> Any | None:
    """The module of a model that adds DeepStack features to its states; None if there is none."""
    for each in model.modules():
        if "deepstack_visual_embeds" in inspect.signature(each.forward).parameters:
            return each
    return None


def widened(rows: Tensor, width: Width, deep: list[Tensor], mark: float) -> Tensor:
    """The rows with DeepStack features and the mark appended; zeros for missing DeepStack features."""
    stacked = deep or [torch.zeros_like(rows)] * width.deep
    marks = [torch.full_like(rows[..., :1], mark)] if width.types else []
    return torch.cat([rows, *stacked, *marks], dim=-1) if stacked or marks else rows


def writer_of(model: Any) -> Any | None:
    """The language model with a head of its own inside a model (BLIP-2, Kosmos-2); None if there is none."""
    inside = (getattr(model, name, None) for name in ("language_model", "text_model"))
    return next((each for each in inside if each is not None and each.get_output_embeddings() is not None), None)


def inner_language_model(model: Any) -> Any:
    """The language model inside a model, for rows that may carry more than an embedding."""
    return _of_rows(writer_of(model), width_of(model))


def language_model(model: Any) -> Any:
    """The model for rows that carry more than an embedding."""
    return _of_rows(model, width_of(model))


def _of_rows(model: Any, width: Width) -> Any:
    def forward(inputs_embeds: Tensor | None = None, **inputs: Any) -> Any:
        if inputs_embeds is None:  # the check runs texts alone by their tokens
            return called(model, **inputs)
        size = (inputs_embeds.shape[-1] - bool(width.types)) // (width.deep + 1)
        rows, *deep = inputs_embeds[..., : size * (width.deep + 1)].split(size, dim=-1)
        types = {width.types: (inputs_embeds[..., -1] > 0).to(torch.int64)} if width.types else {}
        if not deep:
            return called(model, inputs_embeds=rows, **types, **inputs)
        visual = {
            "visual_pos_masks": torch.ones(rows.shape[:2], dtype=torch.bool, device=rows.device),
            "deepstack_visual_embeds": [each.reshape(-1, size) for each in deep],
        }
        with changed_inputs(deep_decoder(model), lambda named: {**named, **visual}):
            return called(model, inputs_embeds=rows, **types, **inputs)

    return module(forward)

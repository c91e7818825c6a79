"""The two graphs that SAM is used as: what is computed once an image, and what once a prompt (transformers 5.23)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from onnxfn.architectures.wrappers.modules import module


def vision_encoder(model: Any) -> Any:
    """From images to their embeddings, and to where in an image each of these stands."""

    def forward(pixel_values: Tensor) -> dict[str, Tensor]:
        seen = model.vision_encoder(pixel_values, return_dict=True).last_hidden_state
        places = model.get_image_wide_positional_embeddings()
        return {
            "image_embeddings": seen,
            "image_positional_embeddings": places.expand(seen.shape[0], -1, -1, -1),
        }

    return module(forward)


def prompt_encoder_mask_decoder(model: Any) -> Any:
    """From what was seen of images, and points in them, to masks of what is at these points."""

    def forward(
        input_points: Tensor, input_labels: Tensor, image_embeddings: Tensor, image_positional_embeddings: Tensor
    ) -> dict[str, Tensor]:
        sparse, dense = model.prompt_encoder(
            input_points=input_points, input_labels=input_labels, input_boxes=None, input_masks=None
        )
        masks, scores = model.mask_decoder(
            image_embeddings=image_embeddings,
            image_positional_embeddings=image_positional_embeddings,
            sparse_prompt_embeddings=sparse,
            dense_prompt_embeddings=dense,
            multimask_output=True,
        )
        return {"iou_scores": scores, "pred_masks": masks}

    return module(forward)


def multi_scale_vision_encoder(model: Any) -> Any:
    """From images to their embeddings at several scales, the finest first."""

    def forward(pixel_values: Tensor) -> dict[str, Any]:
        return {"image_embeddings": model.get_image_embeddings(pixel_values)}

    return module(forward)


def vision_encoder_with_intermediates(model: Any) -> Any:
    """From images to their embeddings, and to what the layers that see a whole image made on the way."""

    def forward(pixel_values: Tensor) -> dict[str, Any]:
        seen, between = model.get_image_embeddings(pixel_values)
        return {"image_embeddings": seen, "intermediate_embeddings": between}

    return module(forward)


def full_model(model: Any) -> Any:
    """The model, which also takes what was seen in place of an image."""
    return model

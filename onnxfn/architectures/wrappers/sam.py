"""The two graphs of SAM: one runs once per image, the other once per prompt (modeling_sam, transformers 5.23)."""

from typing import Any

from torch import Tensor


def vision_encoder(model: Any, pixel_values: Tensor) -> dict[str, Tensor]:
    """Images -> image embeddings and their positional embeddings."""
    embeddings = model.vision_encoder(pixel_values, return_dict=True).last_hidden_state
    positions = model.get_image_wide_positional_embeddings()
    return {
        "image_embeddings": embeddings,
        "image_positional_embeddings": positions.expand(embeddings.shape[0], -1, -1, -1),
    }


def prompt_encoder_mask_decoder(
    model: Any,
    input_points: Tensor,
    input_labels: Tensor,
    image_embeddings: Tensor,
    image_positional_embeddings: Tensor,
) -> dict[str, Tensor]:
    """Image embeddings and points -> masks of the objects at these points, and their scores."""
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

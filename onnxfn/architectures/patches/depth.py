"""DPT for images of any size (modeling_dpt, transformers 5.23)."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def depth_estimation_output(
    self: Any,
    pixel_values: Tensor,
    labels: Any = None,  # noqa: ARG001 - of training alone
    **_: Any,
) -> dict[str, Tensor]:
    """For DPTForDepthEstimation.forward."""
    return {"predicted_depth": self.head(neck_features(self, self.backbone, pixel_values))}


def semantic_segmentation_output(
    self: Any,
    pixel_values: Any = None,
    labels: Any = None,  # noqa: ARG001 - of training alone
    **_: Any,
) -> dict[str, Tensor]:
    """For DPTForSemanticSegmentation.forward."""
    return {"logits": self.head(neck_features(self, None, pixel_values))}


def neck_features(self: Any, backbone: Any, pixel_values: Tensor) -> Any:
    """The output of the neck for the feature maps of the backbone, or of the model's own encoder if it has none."""
    patch_size = (self.config if backbone is None else backbone.config).patch_size
    height, width = pixel_values.shape[-2:]
    if backbone is not None:
        feature_maps = backbone.forward_with_filtered_kwargs(pixel_values).feature_maps
    else:
        feature_maps = selected_hidden_states(
            self.config, self.dpt(pixel_values, output_hidden_states=True, return_dict=True)
        )
    return self.neck(feature_maps, height // patch_size, width // patch_size)


def selected_hidden_states(config: Any, outputs: Any) -> list[Tensor]:
    """The hidden states that `backbone_out_indices` selects. In a hybrid, the first come from its convolutions."""
    convolutional = list(outputs.intermediate_activations) if config.is_hybrid else []
    indices = config.backbone_out_indices[len(convolutional) :]
    return convolutional + [state for index, state in enumerate(outputs.hidden_states[1:]) if index in indices]

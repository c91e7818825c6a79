"""DPT's heads told how many patches an image has along each side (modeling_dpt, transformers 5.23).

The model takes the square root of the number of patches, which is right for square images alone.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor


def depth_estimation_output(self: Any, pixel_values: Tensor, **_: Any) -> dict[str, Tensor]:
    """For DPTForDepthEstimation.forward."""
    return {"predicted_depth": self.head(neck_features(self, self.backbone, pixel_values))}


def semantic_segmentation_output(self: Any, pixel_values: Tensor, **_: Any) -> dict[str, Tensor]:
    """For DPTForSemanticSegmentation.forward."""
    return {"logits": self.head(neck_features(self, None, pixel_values))}


def neck_features(self: Any, backbone: Any, pixel_values: Tensor) -> Any:
    """What the neck makes of the stages of the backbone, or of the model's own."""
    size = (self.config if backbone is None else backbone.config).patch_size
    height, width = pixel_values.shape[-2:]
    if backbone is not None:
        stages = backbone.forward_with_filtered_kwargs(pixel_values).feature_maps
    else:
        stages = selected_hidden_states(
            self.config, self.dpt(pixel_values, output_hidden_states=True, return_dict=True)
        )
    return self.neck(stages, height // size, width // size)


def selected_hidden_states(config: Any, outputs: Any) -> list[Tensor]:
    """The stages that the configuration asks for; of a hybrid, the first are those of its convolutions."""
    first = list(outputs.intermediate_activations) if config.is_hybrid else []
    wanted = config.backbone_out_indices[len(first) :]
    return first + [state for index, state in enumerate(outputs.hidden_states[1:]) if index in wanted]

"""DPT for images of any size, and ZoeDepth with any number of depth ranges (transformers 5.23)."""

from copy import copy
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import interpolate


def depth_estimation_output(self: Any, pixel_values: Tensor, labels: Any = None, **_: Any) -> dict[str, Tensor]:
    """For DPTForDepthEstimation.forward."""
    return {"predicted_depth": self.head(neck_features(self, self.backbone, pixel_values))}


def semantic_segmentation_output(
    self: Any, pixel_values: Any = None, labels: Any = None, **_: Any
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
        outputs = self.dpt(pixel_values, output_hidden_states=True, return_dict=True)
        # In a hybrid, the first come from its convolutions.
        convolutional = list(outputs.intermediate_activations) if self.config.is_hybrid else []
        indices = self.config.backbone_out_indices[len(convolutional) :]
        chosen = [state for index, state in enumerate(outputs.hidden_states[1:]) if index in indices]
        feature_maps = convolutional + chosen
    return self.neck(feature_maps, height // patch_size, width // patch_size)


def reassembled_features(self: Any, hidden_states: list[Tensor], patch_height: Any, patch_width: Any) -> list[Tensor]:
    """For ZoeDepthReassembleStage.forward, which concatenates the stages and splits them by the dynamic batch size."""
    features = []
    for states, project, layer in zip(hidden_states, self.readout_projects, self.layers, strict=True):
        patches = states[:, 1:]
        projected = project(torch.cat((patches, states[:, :1].expand_as(patches)), dim=-1))
        features.append(layer(projected.transpose(1, 2).unflatten(2, (patch_height, patch_width))))
    return features


def metric_depth(
    self: Any, outconv_activation: Tensor, bottleneck: Tensor, feature_blocks: Any, relative_depth: Any
) -> Any:
    """For ZoeDepthMultipleMetricDepthEstimationHeads.forward, which branches on the likeliest range of the batch."""
    features = self.conv2(bottleneck)
    logits = self.mlp_classifier(self.patch_transformer(features)[:, 0])
    arguments = (outconv_activation, features, feature_blocks)
    depths = [_depth_of_range(self, range_, *arguments) for range_ in self.bin_configurations]
    likeliest = logits.sum(dim=0, keepdim=True).argmax(-1)
    return torch.stack(depths).index_select(0, likeliest)[0], logits


def _depth_of_range(self: Any, range_: Any, last: Tensor, features: Tensor, feature_blocks: Any) -> Tensor:
    """Depths within one range of `bin_configurations`."""
    name, least, most = range_["name"], range_["min_depth"], range_["max_depth"]
    centers = bins = self.seed_bin_regressors[name](features)[1]
    if self.bin_centers_type in ("normed", "hybrid2"):
        bins = (centers - least) / (most - least)
    embedding = self.seed_projector(features)
    for projector, attractor, block in zip(self.projectors, self.attractors[name], feature_blocks, strict=False):
        next_embedding = projector(block)
        # All points of the layer at once: a loop has six nodes for each, in a graph with up to 58 of them. Layers with
        # several points are for small features, so that the larger tensors take little memory.
        at_once = copy(attractor)
        at_once.memory_efficient = False
        bins, centers = type(attractor).forward(at_once, next_embedding, bins, embedding, interpolate=True)
        embedding = next_embedding
    size = last.shape[-2:]
    centers, embedding = (interpolate(each, size, mode="bilinear", align_corners=True) for each in (centers, embedding))
    return (self.conditional_log_binomial[name](last, embedding) * centers).sum(dim=1, keepdim=True)

"""EoMT and LightGlue (modeling_eomt, modeling_lightglue, transformers 5.23)."""

import copy
from typing import Any

from torch import Tensor

from onnxfn.architectures.wrappers.modules import module
from onnxfn.specs.errors import InvalidSpec


def with_constant_mask_probs(model: Any) -> Any:
    """The model with `attn_mask_probs` as Python floats, so that the trace can branch on them."""
    # Between 0 and 1 the model draws a random number, which a graph cannot; a trained model has 0.
    copied = copy.copy(model)
    copied._buffers = {name: buffer for name, buffer in model._buffers.items() if name != "attn_mask_probs"}
    copied.attn_mask_probs = model.attn_mask_probs.tolist()
    return copied


SWITCHES = ("depth_confidence", "width_confidence")


def keypoint_matcher(model: Any) -> Any:
    """Image pairs -> matches and scores `[batch, 2, keypoints]`. InvalidSpec for a model that stops early or prunes."""
    enabled = [f"{name}={getattr(model, name)}" for name in SWITCHES if getattr(model, name) > 0]
    if enabled:
        raise InvalidSpec(
            f"{type(model).__name__} stops early and prunes keypoints depending on the images ({', '.join(enabled)}), "
            "and a graph runs all layers on all keypoints; switch both off: from_pretrained(..., "
            "depth_confidence=-1.0, width_confidence=-1.0), or the same values in config.json"
        )

    def forward(pixel_values: Tensor, **options: Any) -> dict[str, Any]:
        outputs = dict(model(pixel_values=pixel_values, **options))
        pairs = outputs["mask"].shape
        return outputs | {name: outputs[name].reshape(pairs) for name in ("matches", "matching_scores")}

    return module(forward)

"""The detectors of torchvision for one image, with scores as trained weights give them.

Random heads give all boxes nearly the same score, so that rounding decides which ones a detector keeps.
"""

from __future__ import annotations

from typing import Any

import torch
from torchvision.models import detection

SIDES = {"min_size": 256, "max_size": 384}
"""The sides of the images inside of a detector that resizes them to its own sizes; they are 800 and 1333 by default."""

FEW_OF_PROPOSALS = {"box_detections_per_img": 20, "rpn_pre_nms_top_n_test": 60, "rpn_post_nms_top_n_test": 40}
FEW = {"detections_per_img": 20, "topk_candidates": 40}


class OneImage(torch.nn.Module):
    """The boxes of an image `[3, height, width]`, and the score and the label of each."""

    def __init__(self, detector: torch.nn.Module) -> None:
        super().__init__()
        self.detector = detector

    def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        found: dict[str, torch.Tensor] = self.detector([image])[0]
        return {name: found[name] for name in ("boxes", "scores", "labels")}


def one_image(name: str, *, spread: float = 2.0, threshold: float = 0.6) -> torch.nn.Module:
    """A detector of 5 classes by the name of its function: norms have the statistics of images, scores a spread."""
    torch.manual_seed(0)
    by_proposals = "rcnn" in name
    sides = {} if name.startswith("ssd") else SIDES
    few = {**FEW_OF_PROPOSALS, "box_score_thresh": threshold} if by_proposals else {**FEW, "score_thresh": threshold}
    model = getattr(detection, name)(weights=None, weights_backbone=None, num_classes=5, **sides, **few).eval()
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.train().reset_running_stats()
            module.momentum = None
    images = [torch.rand(3, 128, 160) for _ in range(8)]
    with torch.no_grad():
        for pair in zip(images[::2], images[1::2], strict=True):
            model([*pair])
    _spread(model.eval(), images[0], spread)
    return OneImage(model)


def _spread(model: torch.nn.Module, image: torch.Tensor, spread: float) -> None:
    """Gives the layers of a detector that compute the scores of the classes results of this standard deviation."""
    heads: dict[Any, list[float]] = {
        layer: []
        for name, layer in model.named_modules()
        if isinstance(layer, (torch.nn.Conv2d, torch.nn.Linear)) and len(layer.weight) % 5 == 0
        if any(word in name for word in ("cls_logits", "cls_score", "classification_head.module_list"))
    }
    for layer in heads:
        torch.nn.init.normal_(layer.weight, std=0.05)
    hooks = [layer.register_forward_hook(lambda of, _, out: heads[of].append(float(out.std()))) for layer in heads]
    with torch.no_grad():
        model([image])
    for hook in hooks:
        hook.remove()
    for layer, deviations in heads.items():
        layer.weight.data *= spread / max(deviations[0], 1e-6)
        if layer.bias is not None:
            layer.bias.data.zero_()

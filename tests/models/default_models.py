"""Models of the default configuration of a type, with random weights: real sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from types import MappingProxyType
from typing import Any

from norm_statistics import measured_statistics

RESNET: Mapping[str, Any] = MappingProxyType({"model_type": "resnet", "out_features": ["stage4"]})
STAGES: Mapping[str, Any] = MappingProxyType(
    {"model_type": "resnet", "out_features": ["stage2", "stage3", "stage4"]},
)

# A row of text is 48 pixels high. The default backbone makes 2 of them, and the model averages over 3.
ROWS_OF_TEXT: Mapping[str, Any] = MappingProxyType(
    {
        "model_type": "pp_lcnet_v3",
        "scale": 0.75,
        "divisor": 16,
        "out_features": ["stage2", "stage3", "stage4", "stage5"],
        "block_configs": [
            [[3, 16, 32, 1, False]],
            [[3, 32, 64, 1, False], [3, 64, 64, 1, False]],
            [[3, 64, 128, [2, 1], False], [3, 128, 128, 1, False]],
            [[3, 128, 256, [1, 2], False], *[[5, 256, 256, 1, False]] * 4],
            [
                [5, 256, 512, [2, 1], True],
                [5, 512, 512, 1, True],
                [5, 512, 512, [2, 1], False],
                [5, 512, 512, 1, False],
            ],
        ],
    }
)
"""The backbone of PP-OCRv5 for rows of text: its strides keep the width."""

KEYPOINTS: Mapping[str, Any] = MappingProxyType({"model_type": "superpoint", "initializer_range": 0.06})
"""A keypoint detector whose scores differ. By default, those of two pixels differ by 1e-5 of a score: by rounding."""

VISIBLE: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "blip": {"vision_config": {"initializer_range": 0.02}},  # 1e-10 by default: no layer changes its input
        "blip_vision_model": {"initializer_range": 0.02},  # the same
        "efficientloftr": {"initializer_range": 0.3, "coarse_matching_threshold": 0.005},  # by default no points match
        "efficientnet": {"initializer_range": 0.2},  # 0.02 by default: the classes get 1e-30
        "sam": {"vision_config": {"initializer_range": 0.02}},  # 1e-10 by default, in all four
        "sam_hq": {"vision_config": {"initializer_range": 0.02}},
        "sam_hq_vision_model": {"initializer_range": 0.02},
        "sam_vision_model": {"initializer_range": 0.02},
    }
)
"""Larger weights for models whose outputs do not depend on their layers by default."""

STABLE: Mapping[str, Mapping[str, Any]] = MappingProxyType({"mamba": {"initializer_range": 0.02}})
"""Smaller weights for models that amplify rounding by default.

Mamba's are 0.1 by default. Then its logits are 0.024 away from float64 in PyTorch and 0.02 in ONNX Runtime, and the
check refuses the file: the outputs cannot tell whether it is right.
"""

SMALL_VITDET: Mapping[str, Any] = MappingProxyType(
    {"model_type": "vitdet", "hidden_size": 384, "num_attention_heads": 6, "out_features": ["stage12"]}
)
FOUR_STAGES: Mapping[str, Any] = MappingProxyType(
    {
        "model_type": "pp_lcnet_v4",
        "out_features": [f"stage{number}" for number in range(1, 5)],
        "block_configs": [
            [[3, 96, 96, 1, True]],
            [[3, 96, 96, 2, False], [3, 96, 96, 1, False]],
            [[3, 96, 192, 2, False], [3, 192, 192, 1, True], *[[3, 192, 192, 1, False]] * 5],
            [[3, 192, 384, 2, False], [3, 384, 384, 1, True], [3, 384, 384, 1, False]],
        ],
    }
)
BRIDGES: Mapping[str, Any] = MappingProxyType(
    {"model_type": "uvdoc_backbone", "out_features": [f"stage{number}" for number in range(1, 7)]}
)
"""Backbones whose channels and strides are those that the model reads; the default ones have others."""

OVERRIDES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        **VISIBLE,
        **STABLE,
        "conditional_detr": {"use_timm_backbone": False, "backbone_config": RESNET},
        "dab-detr": {"use_timm_backbone": False, "backbone_config": RESNET},
        "deformable_detr": {"use_timm_backbone": False, "backbone_config": STAGES},
        "detr": {"use_timm_backbone": False, "backbone_config": RESNET},
        "table-transformer": {"use_timm_backbone": False, "backbone_config": RESNET},
        "esm": {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32},
        "lw_detr": {"projector_scale_factors": [1.0]},
        "levit": {"architectures": ["LevitForImageClassification"]},
        "pp_ocrv5_mobile_rec": {"backbone_config": ROWS_OF_TEXT},
        "pp_doclayout_v2": {"class_thresholds": [0.5] * 25, "class_order": [*range(25)]},
        "pp_ocrv6_small_det": {"backbone_config": FOUR_STAGES, "layer_list_out_channels": [96, 96, 192, 384]},
        "perceiver": {"architectures": ["PerceiverForMaskedLM"]},
        "superglue": {"keypoint_detector_config": KEYPOINTS},
        "superpoint": {"initializer_range": KEYPOINTS["initializer_range"]},
        "time_series_transformer": {"prediction_length": 24},
        "uvdoc": {"backbone_config": BRIDGES},
        "wav2vec2-conformer": {"vocab_size": 32},
        "vitmatte": {"backbone_config": SMALL_VITDET, "fusion_hidden_sizes": [256, 128, 64, 32]},
    }
)
"""What a default configuration lacks: ResNet-50 in place of timm's, and values whose defaults do not run."""

SEEDS: Mapping[str, int] = MappingProxyType({"depth_anything": 2, "pp_doclayout_v3": 1})
"""Seeds of random weights, if not 0. With 0 all depths are below 0 and become 0, or all boxes of masks are empty."""

NOT_MEASURED = frozenset({"align", "levit"})
"""Types whose norms have the statistics of a new model: with measured ones random weights amplify rounding."""

VANISHED = 1e-10
"""An output without larger elements has vanished: float32 may hold its small elements with fewer bits."""


def model(model_type: str, loader: str) -> Any:
    """A model of the default configuration of a type, in evaluation mode."""
    import torch
    import transformers

    torch.manual_seed(SEEDS.get(model_type, 0))
    overrides = {name: dict(value) if isinstance(value, Mapping) else value for name, value in _overrides(model_type)}
    config = transformers.AutoConfig.for_model(model_type, **overrides)
    kind = getattr(transformers, loader)
    built = getattr(kind, "from_config", kind)(config).eval()
    if model_type == "speecht5":
        built.vocoder = transformers.SpeechT5HifiGan(transformers.SpeechT5HifiGanConfig()).eval()
    return built


def _overrides(model_type: str) -> Iterable[tuple[str, Any]]:
    return OVERRIDES.get(model_type, {}).items()


def outputs_with_statistics(model: Any, spec: Any) -> dict[str, Any]:
    """The outputs of a model for its dummy inputs, by name; norms over batches take the statistics of these inputs.

    The tensors of a cache are left out, and types of `NOT_MEASURED` are run as they are.
    """
    import torch

    import onnxfn
    from onnxfn.check.image_sizes import with_runnable_images
    from onnxfn.graphs.capture.forward import flat_forward, tensors_for
    from onnxfn.specs.dummies import dummies

    outputs: dict[str, Any] = {}
    statistics = nullcontext if model.config.model_type in NOT_MEASURED else measured_statistics
    for part in with_runnable_images(model, onnxfn.plan(spec, model.config)).parts:
        tensors = tensors_for(model, part.spec, dummies(part.spec, {}))
        with torch.no_grad(), statistics(model):
            outputs |= zip(part.outputs, flat_forward(model, part.spec)(tensors), strict=True)
    return {name: tensor for name, tensor in outputs.items() if not name.startswith("present")}


def least_variation(outputs: Mapping[str, Any]) -> float:
    """The smallest variation of the outputs that are real numbers, to two digits; 1 if there are none."""
    floats = (tensor for tensor in outputs.values() if tensor.is_floating_point())
    return float(f"{min(map(variation, floats), default=1.0):.1e}")


def variation(output: Any) -> float:
    """The standard deviation of a tensor, divided by its largest element; 0 if its elements vanish.

    A fault does not show in an output that does not vary.
    """
    elements = output.detach().double().flatten()
    largest = float(elements.abs().max())
    return float(elements.std(correction=0)) / largest if largest > VANISHED else 0.0

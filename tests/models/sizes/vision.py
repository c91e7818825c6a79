"""Tiny sizes: models that see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PATCHES: Mapping[str, Any] = {"image_size": 24, "patch_size": 8}
"""Nine patches."""

# Layers that are scaled to nothing prove nothing: the scale is raised with the weights.
# Of images of this shape norms over batches have their statistics.
NORMED: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(
        (
            "cvt",
            "efficientnet",
            "hgnet_v2",
            "mobilenet_v1",
            "mobilenet_v2",
            "mobilevitv2",
            "pp_lcnet",
            "pp_lcnet_v3",
            "pp_lcnet_v4",
            "regnet",
            "resnet",
            "rt_detr_resnet",
            "swiftformer",
            "textnet",
            "uvdoc",
            "uvdoc_backbone",
        ),
        (8, 3, 64, 64),
    ),
    "levit": (32, 3, 64, 64),
    "mobilevit": (32, 3, 64, 64),
    **dict.fromkeys(
        ("pp_ocrv5_mobile_rec", "pp_ocrv5_server_rec", "pp_ocrv6_small_rec", "pp_ocrv6_tiny_rec"), (8, 3, 48, 160)
    ),
}

# Deep nets of units that clip make ten times more of rounding when half of the units are off (1e-4 of float64).
BIASED: Mapping[str, float] = {"mobilenet_v1": 1.0, "mobilenet_v2": 1.5}

STAGES: Mapping[str, Any] = {
    "image_size": 64,
    "hidden_sizes": [8, 16, 24, 32],
    "depths": [1, 2, 1, 1],
    "layer_scale_init_value": 0.5,
}

WINDOWS: Mapping[str, Any] = {
    "image_size": 32,
    "patch_size": 2,
    "embed_dim": 8,
    "depths": [2, 2],
    "num_attention_heads": [2, 4],
    "hidden_size": 16,
    "window_size": 4,
    "encoder_stride": 4,
}

RESNET: Mapping[str, Any] = {"embedding_size": 8, "hidden_sizes": [8, 16, 24, 32], "depths": [1, 2, 1, 1]}

FRAMES: Mapping[str, Any] = {**PATCHES, "num_frames": 4}

LCNET: Mapping[str, Any] = {
    "block_configs": [
        [[3, 16, 16, 1, False]],
        [[3, 16, 24, 2, False]],
        [[3, 24, 24, 2, False]],
        [[3, 24, 24, 2, False]],
        [[5, 24, 32, 2, True], [5, 32, 32, 1, True]],
    ],
}

# Strides that leave a line of text more of its width than of its height.
LCNET_FLAT: Mapping[str, Any] = {
    "block_configs": [
        [[3, 16, 16, 1, False]],
        [[3, 16, 24, [2, 1], False]],
        [[3, 24, 24, [1, 2], False]],
        [[3, 24, 24, [2, 1], False]],
        [[5, 24, 32, [2, 1], True], [5, 32, 32, 1, True]],
    ],
}

HGNET: Mapping[str, Any] = {
    **RESNET,
    "hidden_sizes": [16, 24, 32, 40],
    "stem_channels": [3, 8, 8],
    "stage_in_channels": [8, 16, 24, 32],
    "stage_mid_channels": [8, 8, 8, 8],
    "stage_out_channels": [16, 24, 32, 40],
    "stage_num_blocks": [1, 1, 1, 1],
    "stage_numb_of_layers": [2, 2, 2, 2],
}

HEAD: Mapping[str, Any] = {"hidden_size": 16, "num_attention_heads": 2, "head_out_channels": 23}

FLAT: Mapping[str, Any] = {
    "stem_strides": [2, 1, 1, 1, 1],
    "stage_downsample": [True, True, True, True],
    "stage_downsample_strides": [[2, 1], [1, 2], [2, 1], [2, 1]],
    "out_features": ["stage1", "stage2", "stage3", "stage4"],
}

LCNET4: Mapping[str, Any] = {
    "block_configs": [
        [[3, 16, 16, 1, True]],
        [[3, 16, 24, 1, False]],
        [[3, 24, 24, [2, 1], False], [3, 24, 24, 1, True]],
        [[3, 24, 32, [2, 1], False], [3, 32, 32, 1, True]],
    ],
    "stem_channels": [3, 8, 16],
}

SAM: Mapping[str, Any] = {
    "image_size": 32,
    "patch_size": 8,
    "window_size": 2,
    "global_attn_indexes": [1],
    "output_channels": 16,
    "num_pos_feats": 16,
    "mlp_dim": 48,
}

BIT: Mapping[str, Any] = {**RESNET, "num_groups": 4, "layer_type": "preactivation", "global_padding": "same"}

SPECIAL: Mapping[str, Mapping[str, Any]] = {
    "bit": BIT,
    "beit": {**PATCHES, "use_relative_position_bias": True, "layer_scale_init_value": 0.5},
    "convnext": {**STAGES, "num_hidden_layers": 4},
    "convnextv2": {**STAGES, "num_hidden_layers": 4},
    "cvt": {"embed_dim": [8, 16, 24], "num_heads": [1, 2, 3], "depth": [1, 2, 3]},
    "data2vec-vision": {**PATCHES, "use_relative_position_bias": True, "layer_scale_init_value": 0.5},
    "deit": {**PATCHES, "architectures": ["DeiTForImageClassification"], "encoder_stride": 8, "pooler_output_size": 32},
    "dinov2": {**PATCHES, "mlp_ratio": 2},
    "donut-swin": WINDOWS,
    "efficientnet": {
        "image_size": 64,
        "width_coefficient": 0.5,
        "depth_coefficient": 0.5,
        "hidden_dim": 640,
        "in_channels": [32, 16, 24],
        "out_channels": [16, 24, 32],
        "kernel_sizes": [3, 3, 5],
        "strides": [1, 2, 2],
        "num_block_repeats": [1, 2, 2],
        "expand_ratios": [1, 6, 6],
    },
    "hiera": {
        "image_size": [64, 64],
        "embed_dim": 8,
        "depths": [1, 1, 2, 1],
        "num_heads": [1, 1, 2, 4],
        "masked_unit_size": [8, 8],
    },
    "imagegpt": {"vocab_size": 65},
    "levit": {
        "architectures": ["LevitForImageClassification"],
        "image_size": 64,
        "hidden_sizes": [16, 24, 32],
        "num_attention_heads": [2, 3, 4],
        "depths": [1, 2, 1],
        "key_dim": [8, 8, 8],
        "down_ops": [["Subsample", 8, 2, 4, 2, 2], ["Subsample", 8, 3, 4, 2, 2]],
    },
    "mgp-str": {
        "image_size": [16, 32],
        "patch_size": 8,
        "max_token_length": 5,
        "num_character_labels": 11,
        "num_bpe_labels": 23,
        "num_wordpiece_labels": 19,
    },
    "mobilenet_v1": {"image_size": 64, "depth_multiplier": 0.25},
    "mobilenet_v2": {"image_size": 64, "depth_multiplier": 0.25},
    "mobilevit": {
        "image_size": 64,
        "hidden_sizes": [16, 24, 32],
        "neck_hidden_sizes": [8, 8, 16, 16, 24, 32, 40],
        "aspp_out_channels": 16,
    },
    "perceiver": {
        "architectures": ["PerceiverForImageClassificationLearned"],
        "num_latents": 8,
        "d_latents": 32,
        "d_model": 24,
        "num_self_attends_per_block": 2,
        "num_self_attention_heads": 4,
        "num_cross_attention_heads": 4,
        "image_size": 12,
        "_label_trainable_num_channels": 16,
    },
    "poolformer": {**STAGES, "image_size": 64},
    "pvt": {**STAGES, "sequence_reduction_ratios": [4, 2, 2, 1], "num_attention_heads": [1, 2, 2, 4]},
    "regnet": {**RESNET, "groups_width": 4},
    "resnet": RESNET,
    "swin": WINDOWS,
    "swinv2": WINDOWS,
    "swin2sr": {
        "initializer_range": 0.08,
        "image_size": 16,
        "embed_dim": 16,
        "depths": [2, 2],
        "num_attention_heads": [2, 4],
        "window_size": 4,
        "hidden_size": 16,
        "drop_path_rate": 0.0,
    },
    "vit": {**PATCHES, "encoder_stride": 8},
    "vit_mae": PATCHES,
    "vit_msn": PATCHES,
    "dinov2_with_registers": {**PATCHES, "mlp_ratio": 2},
    "dinov3_convnext": STAGES,
    "dinov3_vit": PATCHES,
    "focalnet": {
        "image_size": 32,
        "patch_size": 2,
        "embed_dim": 8,
        "hidden_sizes": [8, 16],
        "depths": [1, 2],
        "focal_levels": [2, 2],
        "focal_windows": [3, 3],
        "encoder_stride": 4,
    },
    "hgnet_v2": HGNET,
    "ijepa": {**PATCHES, "pooler_output_size": 32},
    "mobilevitv2": {
        "image_size": 64,
        "base_attn_unit_dims": [16, 24, 32],
        "n_attn_blocks": [1, 1, 1],
        "width_multiplier": 0.25,
    },
    "pixio": {**PATCHES, "mlp_ratio": 2, "n_cls_tokens": 3},
    "pp_lcnet": {**LCNET, "class_expand": 40},
    "pp_lcnet_v3": LCNET,
    "pvt_v2": {
        "image_size": 64,
        "hidden_sizes": [8, 16, 24, 32],
        "num_attention_heads": [1, 2, 2, 4],
        "depths": [1, 1, 2, 1],
    },
    "rt_detr_resnet": {**RESNET, "out_features": ["stage2", "stage3", "stage4"]},
    "swiftformer": {
        "image_size": 64,
        "depths": [1, 2, 1, 1],
        "embed_dims": [8, 16, 24, 32],
        "layer_scale_init_value": 0.5,
    },
    "textnet": {"image_size": [64, 64], "hidden_sizes": [8, 8, 16, 24, 32], "stem_out_channels": 8},
    "timesformer": FRAMES,
    "videomae": FRAMES,
    "vivit": {**FRAMES, "tubelet_size": [2, 8, 8], "pooler_output_size": 32},
    "vjepa2": {
        "patch_size": 8,
        "crop_size": 24,
        "frames_per_clip": 4,
        "num_pooler_layers": 2,
        "pred_hidden_size": 24,
        "pred_num_attention_heads": 2,
        "pred_num_hidden_layers": 2,
        "pred_num_mask_tokens": 2,
        "mlp_ratio": 2,
    },
    "vitdet": {
        "image_size": 32,
        "patch_size": 8,
        "pretrain_image_size": 24,
        "mlp_ratio": 2,
        "window_size": 2,
        "window_block_indices": [0],
    },
    "radio": {
        "image_size": 32,
        "patch_size": 8,
        "patch_dim": 192,
        "max_img_size": 64,
        "num_registers": 2,
        "mlp_ratio": 2.0,
    },
    "pp_ocrv5_mobile_rec": {"backbone_config": {"model_type": "pp_lcnet_v3", **LCNET_FLAT}, **HEAD},
    "pp_ocrv5_server_rec": {"backbone_config": {"model_type": "hgnet_v2", **HGNET, **FLAT}, **HEAD},
    "pp_ocrv6_small_rec": {"backbone_config": {"model_type": "pp_lcnet_v4", **LCNET4}, **HEAD},
    "pp_ocrv6_tiny_rec": {
        "backbone_config": {"model_type": "pp_lcnet_v4", **LCNET4},
        "hidden_size": 16,
        "head_out_channels": 23,
    },
    "pp_lcnet_v4": LCNET4,
    "uvdoc_backbone": {
        "resnet_head": [[3, 8], [8, 8]],
        "resnet_configs": [[[8, 8, 1, False], [8, 8, 3, False]], [[8, 16, 1, True], [16, 16, 3, False]]],
        "stage_configs": [[[16, 1]], [[16, 2]], [[16, 3], [16, 2]]],
        "out_features": ["stage2", "stage3"],
    },
    "maskformer-swin": {name: size for name, size in WINDOWS.items() if name != "encoder_stride"},
    "vitpose_backbone": {
        "image_size": [24, 16],
        "patch_size": [8, 8],
        "mlp_ratio": 2,
        "part_features": 16,
        "num_experts": 1,
    },
    "lw_detr_vit": {
        "image_size": 32,
        "pretrain_image_size": 24,
        "patch_size": 8,
        "mlp_ratio": 2,
        "num_windows": 4,
        "window_block_indices": [0],
    },
    "rf_detr_dinov2": {
        "image_size": 32,
        "patch_size": 8,
        "mlp_ratio": 2,
        "num_windows": 2,
        "window_block_indexes": [0],
    },
    "internvl_vision": {"image_size": [24, 24], "patch_size": [8, 8]},
    "sam_vision_model": SAM,
    "sam_hq_vision_model": SAM,
}

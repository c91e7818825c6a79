"""Tiny sizes: models that find things in images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RESNET: Mapping[str, Any] = {
    "model_type": "resnet",
    "embedding_size": 8,
    "hidden_sizes": [8, 12, 16, 24],
    "depths": [1, 1, 1, 1],
    "layer_type": "basic",
    "out_features": ["stage1", "stage2", "stage3", "stage4"],
}

# d_model is 32, by the name of hidden_size.
DETR: Mapping[str, Any] = {
    "backbone_config": RESNET,
    "num_queries": 7,
    "num_labels": 5,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 40,
    "num_attention_heads": 8,
    "decoder_attention_heads": 4,
    "init_std": 0.15,
}

RT_DETR: Mapping[str, Any] = {
    "num_queries": 7,
    "num_labels": 5,
    "encoder_hidden_dim": 32,
    "encoder_in_channels": [12, 16, 24],
    "encoder_ffn_dim": 48,
    "encoder_attention_heads": 4,
    "d_model": 32,
    "decoder_in_channels": [32, 32, 32],
    "decoder_ffn_dim": 40,
    "decoder_attention_heads": 4,
    "decoder_layers": 2,
    "num_denoising": 0,
    "initializer_range": 0.3,
}

RT_DETR_RESNET: Mapping[str, Any] = {
    "backbone_config": {
        **RESNET,
        "model_type": "rt_detr_resnet",
        "out_features": ["stage2", "stage3", "stage4"],
    }
}

HGNET: Mapping[str, Any] = {
    "backbone_config": {
        "model_type": "hgnet_v2",
        "initializer_range": 0.4,
        "embedding_size": 8,
        "stem_channels": [3, 8, 8],
        "hidden_sizes": [8, 12, 16, 24],
        "depths": [1, 1, 1, 1],
        "stage_in_channels": [8, 8, 12, 16],
        "stage_mid_channels": [6, 6, 8, 8],
        "stage_out_channels": [8, 12, 16, 24],
        "stage_num_blocks": [1, 1, 1, 1],
        "stage_numb_of_layers": [2, 2, 2, 2],
        "out_features": ["stage2", "stage3", "stage4"],
    }
}

# Segformer and GLPN.
MIXED: Mapping[str, Any] = {
    "hidden_sizes": [8, 16, 24, 32],
    "depths": [1, 1, 1, 1],
    "num_attention_heads": [1, 2, 2, 4],
    "decoder_hidden_size": 24,
    "num_labels": 5,
}

DINOV2: Mapping[str, Any] = {
    "model_type": "dinov2",
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "image_size": 56,
    "patch_size": 14,
    "initializer_range": 0.15,
    "out_features": ["stage1", "stage2", "stage3", "stage4"],
    "reshape_hidden_states": False,
}

WHOLE: Mapping[str, Any] = {
    **{name: value for name, value in DINOV2.items() if name not in ("out_features", "reshape_hidden_states")},
    "image_size": 64,
    "patch_size": 16,
}

NECK: Mapping[str, Any] = {"neck_hidden_sizes": [8, 12, 16, 24], "fusion_hidden_size": 16}

DEPTH: Mapping[str, Any] = {
    **NECK,
    "backbone_config": DINOV2,
    "reassemble_hidden_size": 32,
    "head_hidden_size": 12,
}

WINDOWED: Mapping[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "image_size": 64,
    "patch_size": 16,
    "initializer_range": 0.15,
    "out_features": ["stage1", "stage3"],
}

LW_DETR: Mapping[str, Any] = {
    "d_model": 32,
    "num_queries": 7,
    "num_labels": 5,
    "decoder_layers": 2,
    "decoder_self_attention_heads": 4,
    "decoder_cross_attention_heads": 4,
    "decoder_ffn_dim": 40,
    "decoder_n_points": 2,
    "group_detr": 2,
    "c2f_num_blocks": 1,
    "init_std": 0.15,
}

MASK2FORMER: Mapping[str, Any] = {
    "backbone_config": RESNET,
    "hidden_dim": 32,
    "mask_feature_size": 32,
    "feature_size": 32,
    "encoder_feedforward_dim": 48,
    "dim_feedforward": 48,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "num_attention_heads": 4,
    "num_queries": 7,
    "num_labels": 5,
    "init_std": 0.15,
}

# Kernel, channels in and out, stride, and whether channels are weighed.
LCNET_V3: Mapping[str, Any] = {
    "model_type": "pp_lcnet_v3",
    "initializer_range": 0.4,
    "out_features": ["stage2", "stage3", "stage4", "stage5"],
    "scale": 1.0,
    "divisor": 4,
    "stem_channels": 8,
    "conv_symmetric_num": 2,
    "block_configs": [
        [[3, 8, 8, 1, False]],
        [[3, 8, 12, 2, False], [3, 12, 12, 1, False]],
        [[3, 12, 16, 2, False]],
        [[3, 16, 24, 2, False]],
        [[5, 24, 32, 2, True]],
    ],
}

LCNET_V4: Mapping[str, Any] = {
    "model_type": "pp_lcnet_v4",
    "initializer_range": 0.4,
    "stem_channels": [3, 6, 8],
    "block_configs": [
        [[3, 8, 8, 1, True]],
        [[3, 8, 12, 2, False]],
        [[3, 12, 16, 2, False], [3, 16, 16, 1, True]],
        [[3, 16, 24, 2, False]],
    ],
    "out_features": ["stage1", "stage2", "stage3", "stage4"],
}

FOUR_STAGES: Mapping[str, Any] = {
    **HGNET["backbone_config"],
    "out_features": ["stage1", "stage2", "stage3", "stage4"],
}

INTRACLASS: Mapping[str, Any] = {
    "reduce_channel": [1, 1, 0],
    "return_channel": [1, 1, 0],
    **{
        f"{name}_{ratio}ratio": [kernel, [1, 1], [side // 2 for side in kernel]]
        for ratio, size in (("long", 7), ("mid", 5), ("short", 3))
        for name, kernel in (
            ("vertical_long_to_small_conv", [size, 1]),
            ("horizontal_small_to_long_conv", [1, size]),
            ("symmetric_conv_long", [size, size]),
        )
    },
}

FINDS_TEXT: Mapping[str, Any] = {"neck_out_channels": 32, "initializer_range": 0.15}

FINDS_TEXT_CLASS_BY_CLASS: Mapping[str, Any] = {
    **FINDS_TEXT,
    "intraclass_block_config": INTRACLASS,
    "scale_factor_list": [1, 2, 4, 8],
    "kernel_list": [3, 2, 2],
}

SAM: Mapping[str, Any] = {
    "vision_config": {
        "hidden_size": 32,
        "output_channels": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "image_size": 40,
        "patch_size": 8,
        "window_size": 3,
        "global_attn_indexes": [1],
        "num_pos_feats": 8,
        "mlp_dim": 48,
        "initializer_range": 0.15,
    },
    "prompt_encoder_config": {"hidden_size": 16, "image_size": 40, "patch_size": 8, "mask_input_channels": 4},
    "mask_decoder_config": {
        "hidden_size": 16,
        "mlp_dim": 24,
        "num_attention_heads": 2,
        "iou_head_hidden_dim": 24,
    },
}

# Keypoints that are all alike match nothing: norms over batches have the statistics of pairs of this shape.
NORMED: Mapping[str, tuple[int, ...]] = dict.fromkeys(("efficientloftr", "superglue"), (2, 2, 3, 64, 64))

UNSURE, OVERSURE = ("lightglue",), ("superglue",)
FAR = ("depth_pro",)

SUPERPOINT: Mapping[str, Any] = {
    "encoder_hidden_sizes": [8, 12, 16, 24],
    "decoder_hidden_size": 16,
    "descriptor_decoder_dim": 20,
    "keypoint_threshold": 0.05,
    "initializer_range": 0.18,
}

# No two keypoints have scores that rounding would swap.
PAIRED: Mapping[str, Any] = {
    "keypoint_detector_config": {
        "model_type": "superpoint",
        **SUPERPOINT,
        "descriptor_decoder_dim": 32,
        "initializer_range": 0.15,
    }
}
# Where weights are drawn for layers without sums, and each is added to what came before it.
LOUD = ("tipsv2_dpt",)

SPECIAL: Mapping[str, Mapping[str, Any]] = {
    "d_fine": {**RT_DETR, **HGNET, "initializer_range": 0.25},
    "conditional_detr": DETR,
    "dab-detr": DETR,
    "deformable_detr": {
        **DETR,
        "backbone_config": {**RESNET, "out_features": ["stage2", "stage3", "stage4"]},
        "encoder_n_points": 2,
        "decoder_n_points": 2,
    },
    "deimv2": {**RT_DETR, **HGNET, "initializer_range": 0.2},
    "detr": DETR,
    "dpt": {
        "image_size": 32,
        "patch_size": 16,
        "num_hidden_layers": 4,
        "backbone_out_indices": [0, 1, 2, 3],
        "neck_hidden_sizes": [8, 12, 16, 24],
        "fusion_hidden_size": 16,
        "pooler_output_size": 32,
        "num_labels": 5,
    },
    "glpn": MIXED,
    "lightglue": {
        **PAIRED,
        "descriptor_dim": 24,
        "num_key_value_heads": 4,
        "depth_confidence": -1.0,
        "width_confidence": -1.0,
        "initializer_range": 0.12,
    },
    "maskformer": {
        "backbone_config": RESNET,
        "decoder_config": {
            "model_type": "detr",
            "d_model": 32,
            **{key: value for key, value in DETR.items() if key != "num_labels"},
        },
        "fpn_feature_size": 32,
        "mask_feature_size": 32,
        "init_std": 0.15,
        "num_labels": 5,
    },
    "pp_doclayout_v2": {
        **RT_DETR,
        **HGNET,
        "class_thresholds": [0.1, 0.2, 0.3, 0.2, 0.1],
        "class_order": [4, 2, 0, 1, 3],
        "reading_order_config": {
            "hidden_size": 32,
            "num_attention_heads": 4,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "initializer_range": 0.15,
            "coordinate_size": 6,
            "shape_size": 4,
            "num_classes": 5,
            "relation_bias_embed_dim": 4,
            "global_pointer_head_size": 8,
        },
    },
    "pp_doclayout_v3": {
        **RT_DETR,
        "backbone_config": {**HGNET["backbone_config"], "out_features": ["stage1", "stage2", "stage3", "stage4"]},
        "mask_feature_channels": [8, 8],
        "x4_feat_dim": 8,
        "num_prototypes": 6,
        "global_pointer_head_size": 8,
    },
    "rt_detr": {**RT_DETR, **RT_DETR_RESNET, "initializer_range": 0.4},
    "rt_detr_v2": {**RT_DETR, **RT_DETR_RESNET},
    "sam": SAM,
    "sam_hq": {**SAM, "mask_decoder_config": {**SAM["mask_decoder_config"], "vit_dim": 32}},
    "segformer": {**MIXED, "num_hidden_layers": 4},
    "superglue": {
        **PAIRED,
        "keypoint_encoder_sizes": [8, 16],
        "gnn_layers_types": ["self", "cross", "self", "cross"],
        "sinkhorn_iterations": 5,
        "matching_threshold": 0.02,
        "initializer_range": 0.2,
    },
    "superpoint": SUPERPOINT,
    "table-transformer": DETR,
    "vitpose": {
        "backbone_config": {
            "model_type": "vitpose_backbone",
            "image_size": [64, 48],
            "patch_size": [16, 16],
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "initializer_range": 0.15,
            "out_features": ["stage2"],
        },
        "num_labels": 5,
    },
    "depth_anything": DEPTH,
    "depth_pro": {
        "patch_size": 64,
        "fusion_hidden_size": 16,
        "intermediate_hook_ids": [3, 1],
        "intermediate_feature_dims": [12, 16],
        "scaled_images_feature_dims": [24, 20, 16],
        **dict.fromkeys(("image_model_config", "patch_model_config", "fov_model_config"), WHOLE),
        "use_fov_model": True,
        "initializer_range": 0.1,
    },
    "prompt_depth_anything": DEPTH,
    "chmv2": {
        "backbone_config": {
            "model_type": "dinov3_vit",
            "patch_size": 16,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "image_size": 64,
            "initializer_range": 0.15,
            "out_features": ["stage1", "stage2", "stage3", "stage4"],
            "return_class_token": True,
            "reshape_hidden_states": True,
        },
        "post_process_channels": [8, 12, 16, 24],
        "fusion_hidden_size": 16,
        "head_hidden_size": 12,
        "max_depth": 5.0,
        "number_output_channels": 16,
    },
    "lw_detr": {
        **LW_DETR,
        "projector_scale_factors": [1.0],
        "backbone_config": {
            **WINDOWED,
            "model_type": "lw_detr_vit",
            "pretrain_image_size": 64,
            "window_block_indices": [0, 2],
            "num_windows": 4,
        },
    },
    "rf_detr": {
        **LW_DETR,
        "backbone_config": {**WINDOWED, "model_type": "rf_detr_dinov2", "num_windows": 2},
    },
    "upernet": {
        "backbone_config": RESNET,
        "hidden_size": 16,
        "auxiliary_channels": 8,
        "auxiliary_in_channels": 16,
        "num_labels": 5,
    },
    "efficientloftr": {
        "stage_num_blocks": [1, 1, 2, 1],
        "out_features": [8, 12, 16, 32],
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
        "intermediate_size": 64,
        "num_attention_layers": 2,
        "fine_matching_slice_dim": 4,
        "coarse_matching_temperature": 0.2,
        "coarse_matching_threshold": 0.02,
        "coarse_matching_border_removal": 1,
        "initializer_range": 1.0,
    },
    "vitmatte": {
        "backbone_config": {
            "model_type": "vitdet",
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "image_size": 64,
            "pretrain_image_size": 64,
            "patch_size": 16,
            "num_channels": 4,
            "window_size": 3,
            "window_block_indices": [0],
            "residual_block_indices": [1],
            "use_relative_position_embeddings": True,
            "initializer_range": 0.15,
            "out_features": ["stage2"],
        },
        "initializer_range": 0.4,
        "hidden_size": 32,
        "convstream_hidden_sizes": [6, 8, 12],
        "fusion_hidden_sizes": [16, 12, 8, 6],
    },
    "sapiens2": {
        "image_size": 64,
        "patch_size": 16,
        "num_key_value_attention_heads": 2,
        "num_first_full_attention_layers": 1,
        "num_last_full_attention_layers": 0,
        "num_key_value_heads_per_layer": None,
        "num_labels": 4,
        "head_config": {
            "upsample_out_channels": [12, 8],
            "upsample_kernel_sizes": [4, 4],
            "conv_out_channels": [8],
            "conv_kernel_sizes": [1],
        },
    },
    "mask2former": MASK2FORMER,
    "oneformer": {
        **MASK2FORMER,
        "conv_dim": 32,
        "mask_dim": 32,
        "query_dec_layers": 2,
        "task_seq_len": 9,
        "text_encoder_width": 16,
        "text_encoder_context_length": 9,
        "text_encoder_num_layers": 1,
        "text_encoder_vocab_size": 99,
        "text_encoder_n_ctx": 2,
    },
    "eomt": {
        "image_size": 64,
        "patch_size": 16,
        "num_hidden_layers": 4,
        "num_blocks": 2,
        "num_queries": 7,
        "num_labels": 5,
        "num_upscale_blocks": 1,
    },
    "eomt_dinov3": {
        "image_size": 64,
        "patch_size": 16,
        "num_hidden_layers": 4,
        "num_blocks": 2,
        "num_queries": 7,
        "num_labels": 5,
        "num_upscale_blocks": 1,
    },
    "seggpt": {
        "image_size": [64, 32],
        "patch_size": 8,
        "pretrain_image_size": 32,
        "mlp_dim": 48,
        "decoder_hidden_size": 8,
        "num_hidden_layers": 4,
        "merge_index": 0,
        "intermediate_hidden_state_indices": [0, 1, 2, 3],
    },
    "sam2": {
        "vision_config": {
            "backbone_config": {
                "model_type": "sam2_hiera_det_model",
                "hidden_size": 8,
                "num_attention_heads": 1,
                "image_size": [64, 64],
                "window_positional_embedding_background_size": [3, 3],
                "blocks_per_stage": [1, 1, 2, 1],
                "embed_dim_per_stage": [8, 16, 24, 32],
                "num_attention_heads_per_stage": [1, 2, 2, 4],
                "window_size_per_stage": [4, 2, 4, 2],
                "global_attention_blocks": [3],
                "initializer_range": 0.15,
            },
            "backbone_channel_list": [32, 24, 16, 8],
            "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]],
            "fpn_hidden_size": 32,
            "initializer_range": 0.15,
        },
        "prompt_encoder_config": {"hidden_size": 32, "image_size": 64, "mask_input_channels": 4},
        "mask_decoder_config": {"hidden_size": 32, "mlp_dim": 24, "num_attention_heads": 4, "iou_head_hidden_dim": 24},
    },
    "sam3_tracker": {
        "vision_config": {
            "backbone_config": {
                "model_type": "sam3_vit_model",
                "hidden_size": 32,
                "intermediate_size": 48,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "image_size": 56,
                "patch_size": 14,
                "window_size": 3,
                "global_attn_indexes": [1],
                "pretrain_image_size": 28,
                "initializer_range": 0.15,
            },
            "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]],
            "fpn_hidden_size": 32,
            "initializer_range": 0.15,
        },
        "prompt_encoder_config": {"hidden_size": 32, "image_size": 56, "patch_size": 14, "mask_input_channels": 4},
        "mask_decoder_config": {"hidden_size": 32, "mlp_dim": 24, "num_attention_heads": 4, "iou_head_hidden_dim": 24},
    },
    "pp_ocrv5_mobile_det": {
        **FINDS_TEXT,
        "initializer_range": 0.08,
        "backbone_config": LCNET_V3,
        "layer_list_out_channels": [6, 8, 10, 12],
    },
    "pp_ocrv5_server_det": {**FINDS_TEXT_CLASS_BY_CLASS, "backbone_config": FOUR_STAGES},
    "pp_ocrv6_medium_det": {**FINDS_TEXT_CLASS_BY_CLASS, "backbone_config": LCNET_V4},
    "pp_ocrv6_small_det": {**FINDS_TEXT, "backbone_config": LCNET_V4, "layer_list_out_channels": [8, 12, 16, 24]},
    "uvdoc": {
        "backbone_config": {
            "model_type": "uvdoc_backbone",
            "resnet_head": [[3, 8], [8, 8]],
            "resnet_configs": [
                [[8, 8, 1, False], [8, 8, 3, False]],
                [[8, 12, 1, True], [12, 12, 3, False]],
                [[12, 16, 1, True], [16, 16, 3, False]],
            ],
            "stage_configs": [[[16, 1]], [[16, 2]], [[16, 5]], [[16, 8], [16, 3]], [[16, 12], [16, 7]], [[16, 3]]],
            "initializer_range": 0.14,
            "out_features": [f"stage{stage}" for stage in range(1, 7)],
        },
        "bridge_connector": [16, 16],
        "out_point_positions2D": [[16, 8], [8, 2]],
        "initializer_range": 0.2,
    },
    "tipsv2_dpt": {
        **NECK,
        "num_depth_bins": 12,
        "num_labels": 5,
        "backbone_config": {
            "model_type": "tipsv2_vision_model",
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "image_size": 56,
            "patch_size": 14,
            "initializer_range": 0.15,
            "out_indices": [1, 2, 3, 4],
            "reshape_hidden_states": False,
            "apply_layernorm": True,
        },
    },
    "zoedepth": {
        "backbone_config": {
            "model_type": "beit",
            "hidden_size": 32,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "intermediate_size": 48,
            "image_size": 64,
            "patch_size": 16,
            "use_relative_position_bias": True,
            "layer_scale_init_value": 0.5,
            "initializer_range": 0.15,
            "reshape_hidden_states": False,
            "out_features": ["stage1", "stage2", "stage3", "stage4"],
        },
        **NECK,
        "bottleneck_features": 16,
        "num_relative_features": 8,
        "bin_embedding_dim": 16,
        "num_attractors": [4, 2, 2, 1],
        "num_patch_transformer_layers": 4,
        "patch_transformer_hidden_size": 128,
        "patch_transformer_intermediate_size": 32,
        "patch_transformer_num_attention_heads": 4,
        "bin_configurations": [
            {"name": name, "n_bins": 8, "min_depth": 0.001, "max_depth": depth}
            for name, depth in (("near", 10.0), ("far", 80.0))
        ],
    },
    "yolos": {"image_size": [64, 96], "patch_size": 16, "num_detection_tokens": 7, "num_labels": 5},
}

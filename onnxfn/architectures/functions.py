"""The short names of patches and wrappers: `file.function`.

A spec holds short names, also in a file. Only this table maps them to modules.
To move or rename a function and keep its short name, add an entry for that name to FUNCTIONS.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

PATCHES: Mapping[str, str] = MappingProxyType(
    {
        "bart": "sequence_classifier_output t5_sequence_classifier_output encoder_layer_output",
        "bit": "padded_features weight_standardized_convolution",
        "canine": "attention downsampled_mask repeated_molecules",
        "clap": "patch_embeddings",
        "clipseg": "conditional_embeddings",
        "cpmant": "attention_mask",
        "deepstack": "added_features",
        "depth_pro": "patch_feature_maps",
        "diffusers": "NUM_UPSAMPLERS upsampled_features",
        "dpt": "depth_estimation_output semantic_segmentation_output",
        "efficientloftr": "aggregated_attention fine_windows keypoint_matching_output mask_without_border",
        "encodec": "codebook_embedding_sum",
        "experts": "dbrx_outputs longcat_outputs step3p7_outputs",
        "falcon": "alibi_bias",
        "fastspeech": "length_regulated_states relative_positional_encoding shifted_relative_positions",
        "feature_splits": "sizes whole items length symbols",
        "florence2": "channel_attention",
        "fnet": "fourier_transform",
        "fsmt": "padding_mask",
        "funnel": "position_embeds",
        "gemma3n": "gaussian_topk",
        "granite": "block_attention conformer_attention",
        "grid_convolutions": "lfm3_vl_states lfm3_vl_convolution hunyuan_vl_features hy_v4_vl_features",
        "hieradet": "windowed_block",
        "image_padding": "padded_as_tensorflow padded_to_even padded_to_layer_windows padded_to_patches "
        "padded_to_windows unpadded_states",
        "image_rows": "pixtral_states step3p7_features",
        "image_sizes": "symbolic_int depth_anything_depth relative_positions unit_steps tensor_of_sizes",
        "indexers": "selected_by_blocks",
        "janus": "patch_embeddings",
        "longformer": "unpadded_inputs led_unpadded_inputs attention",
        "longt5": "global_block_ids global_aggregates side_bias",
        "mamba": "mixer multihead_mixer",
        "merged_blocks": "paddleocr_features lfm2_vl_features minicpm_features",
        "moe": "batched_mm_forward",
        "moonshine": "feature_lengths",
        "musicgen": "delay_pattern_mask conv1d_output",
        "nemotron": "attention",
        "packed_sound": "chunks pairs omni_features segment_ends",
        "packed_vision": "segment_ends segment_ends_and_length position_ids window_index "
        "interpolation_indices_and_weights merged_order frame_index temporal_merge_index merged_frames is_packed "
        "attention_interface antialiased_positions merged_patches nearest_position_ids averaged_tokens",
        "position_embeddings": "interpolated_bicubic interpolated_bilinear",
        "position_ids": "position_ids_from_input_ids",
        "recurrent": "conv_state recurrent_state delta_rule mamba2_scan lightning_attention rglru_scan",
        "reformer": "axial_positions",
        "rotary_pairs": "cos_sin rotated_heads_first rotated_length_first",
        "rt_detr": "tensor_length sine_position_embedding gathered_along_dim",
        "rwkv": "linear_attention",
        "sam3": "flat_features",
        "shift_tokens": "shift_tokens_right",
        "siglip2": "resized_positional_embeddings",
        "sliding_window": "updated_states",
        "superglue": "superglue_output lightglue_output",
        "superpoint": "keypoint_detection_output",
        "switch_experts": "router_outputs expert_outputs",
        "tapas": "segment_reduction",
        "tiles": "idefics2_features idefics3_features smolvlm_features",
        "timesfm": "masked_mean_std forward",
        "udop": "joined_embeddings",
        "unpadded_tiles": "tiled_features",
        "vits": "gated_activation relative_embeddings inverse_spline",
        "wav2vec2_bert": "xvector_output",
        "xlstm": "matrix_memory",
        "zoedepth": "relative_position_bias reassembled_features metric_depth",
    }
)
"""File in `patches/` -> the functions that rows name."""

WRAPPERS: Mapping[str, str] = MappingProxyType(
    {
        "blip": "vision_encoder text_decoder",
        "codecs": "encoder decoder single_chunk_encoder single_chunk_decoder vocoder",
        "diffusers": "vae_encoder dcae_encoder vae_decoder",
        "embedded_decoders": "decoder_of_embeddings",
        "eomt": "with_constant_mask_probs",
        "features": "image_features image_features_of_whole_images audio_features token_embeddings",
        "image_tokens": "prepared_embeddings language_model lm_head gen_head gen_img_embeds image_decode",
        "latent_attention": "with_expanded_cache",
        "lightglue": "keypoint_matcher",
        "musicgen": "text_encoder encodec_decode build_delay_pattern_mask",
        "olmo_hybrid": "with_conv_states_in_parts",
        "pop2piano": "mel_conditioner",
        "pp_formulanet": "vision_encoder text_decoder",
        "prefixes": "language_model",
        "sam": (
            "vision_encoder multi_scale_vision_encoder vision_encoder_with_intermediates "
            "prompt_encoder_mask_decoder full_model"
        ),
        "sentence_transformers": "text_and_image_encoder",
        "speecht5": "encoder decoder postnet_and_vocoder",
        "timesfm": "forecast forecast_by_quantiles",
        "timm": "classifier",
        "towers": "text_model vision_model audio_model video_model prefix_attention_model",
        "transducers": "encoder decoder",
        "vits": "speech",
        "wide_rows": "language_model inner_language_model",
    }
)
"""File in `wrappers/` -> the functions that rows name."""

FUNCTIONS: Mapping[str, str] = MappingProxyType(
    {
        f"{file}.{name}": f"onnxfn.architectures.{folder}.{file}:{name}"
        for folder, files in (("patches", PATCHES), ("wrappers", WRAPPERS))
        for file, names in files.items()
        for name in names.split()
    }
)
"""Short name -> `package.module:function`: `recurrent.delta_rule`, `sam.vision_encoder`."""

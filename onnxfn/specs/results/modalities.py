"""Modalities: which arguments of `forward` hold texts, images, videos, sounds and proteins."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

MAIN_INPUTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "text": ("input_ids", "classes_input_ids", "task_inputs"),
        "image": (
            *("pixel_values", "pixel_values_images", "image_pixel_values", "flattened_patches", "image_patches"),
            "image",
        ),
        "video": ("pixel_values_videos",),
        "audio": ("input_values", "input_features", "audio_input_features", "audio_input_ids"),
        "protein": ("protein_input_ids",),
    }
)
"""Modality -> the arguments in which processors of transformers 5.23 give its content."""

STAND_INS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "text": ("inputs_embeds", "decoder_input_ids", "decoder_inputs_embeds"),
        "image": ("image_embeds", "visual_embeds", "visual_feats"),
    }
)
"""Modality -> the arguments that may hold its content and that no processor gives."""

OTHER_INPUTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "text": (
            *("token_type_ids", "bbox", "classes_attention_mask", "classes_structure"),
            *("tasks_input_ids", "tasks_attention_mask", "qformer_input_ids", "qformer_attention_mask"),
            *("prompt_ids", "input_points", "input_labels", "input_boxes"),
        ),
        "image": (
            *("pixel_mask", "pixel_attention_mask", "pixel_values_local", "high_res_pixel_values", "spatial_shapes"),
            *("image_sizes", "image_grid_thw", "image_grid_hw", "image_grids", "image_merge_sizes", "image_num_crops"),
            *("image_position_ids", "image_token_pooling", "image_attention_mask", "image_embeds_position_mask"),
            *("images_per_sample", "batch_num_images", "num_local_patches", "patches_grid", "target_sizes"),
            *("aspect_ratio_ids", "aspect_ratio_mask", "cross_attention_mask", "mm_token_type_ids"),
            *("moe_mm_token_type_ids", "prompt_depth"),
        ),
        "video": (
            *("video_grid_thw", "video_grids", "video_merge_sizes", "video_position_ids", "video_token_pooling"),
            *("video_compression_mask", "video_second_per_grid", "second_per_grid_ts", "num_frames_per_video"),
            *("target_sizes_videos", "padding_mask_videos"),
        ),
        "audio": (
            *("input_features_mask", "feature_attention_mask", "padding_mask", "input_values_mask", "is_longer"),
            *("audio_attention_mask", "audio_embed_sizes", "audio_input_ids_mask", "input_values_cutoffs"),
            *("audio_prompt_latents", "audio_prompt_latents_mask", "chunk_sample_lengths", "noise_sequence"),
        ),
        "protein": ("protein_attention_mask",),
    }
)
"""Modality -> the other arguments that processors of transformers 5.23 give for it: masks, sizes, positions."""

MODALITY_OF: Mapping[str, str] = MappingProxyType(
    {name: modality for table in (OTHER_INPUTS, MAIN_INPUTS) for modality, names in table.items() for name in names}
)
"""An argument that processors give -> its modality. `attention_mask` is not among them: it masks texts and sounds."""

NOUNS: Mapping[str, str] = MappingProxyType(
    {"text": "texts", "image": "images", "video": "videos", "audio": "sounds", "protein": "proteins"}
)


def modalities(names: Collection[str]) -> tuple[str, ...]:
    """The modalities whose content is among these arguments of `forward`.

    >>> modalities(["input_ids", "attention_mask", "pixel_values"])
    ('text', 'image')
    """
    present = {*names}
    content = {modality: {*main, *STAND_INS.get(modality, ())} for modality, main in MAIN_INPUTS.items()}
    return tuple(modality for modality, holders in content.items() if holders & present)

"""Types of outputs, and modalities of inputs, as they print."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

_FLOAT_RESULTS = """
action_preds alphas attentions audio_embeds audio_values class_queries_logits conditioned_features
cross_attentions decoder_attentions decoder_hidden_states descriptors domain_logits embeddings
encoder_attentions encoder_hidden_states encoder_last_hidden_state end_logits feature_maps field_of_view
foregrounds full_predictions heatmaps hidden_states image_embeddings image_embeds image_features
image_positional_embeddings inputs_embeds intermediate_embeddings iou_scores itm_score language_output
last_hidden_state logits logits_aggregation logits_per_audio logits_per_image logits_per_text logits_per_video
masks_queries_logits matching_scores mean_predictions multimodal_embeddings normals object_score_logits
order_logits out_masks pooled_output pooler_output pred_boxes pred_masks predicted_depth prediction_outputs
present_cell_state present_hidden_state question_answering_score reconstruction return_preds sentence_embedding
spectrogram start_logits state_preds text_embeddings text_embeds text_features token_embeddings
transformer_decoder_last_hidden_state video_embeds vision_output waveform waveforms
"""

FLOAT_RESULTS = frozenset(_FLOAT_RESULTS.split())
"""The names under which models of transformers, and the wrappers of rows, return floats of the model's dtype."""


def output_kind(spec: Any, output: Any) -> str:
    """The kind of an output: its own, that of the input that takes it in the next call, or by its name; or empty."""
    inputs: Mapping[str, str] = {feedback.output: feedback.input for feedback in getattr(spec, "feedback", ())}
    if output.kind is None and output.name in inputs:
        return str(spec.inputs[inputs[output.name]].kind)
    kind = output.kind or ("float" if {*output.forward_path[:1]} & {*FLOAT_RESULTS} else "")
    return str(spec.target.io_dtype) if "float" in kind and output.name in getattr(spec, "io_names", ()) else kind


def is_open(spec: Any, output: Any) -> bool:
    """Whether only the graph shows if an output is int32 or int64: the spec has inputs of 32 bits."""
    return bool(output.kind == "int" and spec.target.int_dtype == "int32")


def tensor_dtype(spec: Any, kind: str) -> str:
    """The dtype of tensors of a kind in the graph of a spec; the kind itself if the spec does not have it."""
    return {"int": spec.target.int_dtype, "float": spec.target.float_dtype}.get(kind) or kind


def output_dtype(spec: Any, output: Any) -> str:
    """The dtype of an output in the graph of a spec; an empty text if only the graph shows it."""
    return "int" if is_open(spec, output) else tensor_dtype(spec, output_kind(spec, output))


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
"""Modality -> the arguments with its content that no processor computes."""

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
    """The modalities whose content is among these arguments of `forward`."""
    content = {modality: {*main, *STAND_INS.get(modality, ())} for modality, main in MAIN_INPUTS.items()}
    return tuple(modality for modality, holders in content.items() if holders & {*names})

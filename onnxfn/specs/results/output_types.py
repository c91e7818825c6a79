"""The dtypes of outputs that are known before a graph is built, for tables of specs and plans."""

from __future__ import annotations

from collections.abc import Mapping
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
    """The kind of an output of a spec or a plan; an empty text where only the graph shows it.

    It is the output's own, or that of the input that takes it in the next call, or that of its name in transformers.

    >>> from onnxfn.specs.algebra.facts import gives
    >>> scores, ids = gives("scores", "n 2", path=("logits",)), gives("ids", "n")
    >>> output_kind(scores, scores.outputs[0]), output_kind(ids, ids.outputs[0])
    ('float', '')
    """
    inputs: Mapping[str, str] = {feedback.output: feedback.input for feedback in getattr(spec, "feedback", ())}
    if output.kind is None and output.name in inputs:
        return str(spec.inputs[inputs[output.name]].kind)
    is_float = output.forward_path[:1] and output.forward_path[0] in FLOAT_RESULTS
    kind = output.kind or ("float" if is_float else "")
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

"""The dtypes of outputs that are known before a graph is built, for tables of specs and plans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FLOAT_RESULTS = frozenset(
    (
        *("attentions", "audio_embeds", "audio_values", "cross_attentions", "decoder_attentions"),
        *("decoder_hidden_states", "embeddings", "encoder_attentions", "encoder_hidden_states"),
        *("encoder_last_hidden_state", "end_logits", "feature_maps", "hidden_states", "image_embeds", "inputs_embeds"),
        *(
            "iou_scores",
            "last_hidden_state",
            "logits",
            "logits_aggregation",
            "logits_per_audio",
            "logits_per_image",
            "logits_per_text",
        ),
        *("logits_per_video", "pooler_output", "pred_boxes", "pred_masks", "predicted_depth", "reconstruction"),
        *("sentence_embedding", "spectrogram", "start_logits", "text_embeds", "token_embeddings", "video_embeds"),
        *("waveform",),
    )
)
"""The names under which models of transformers return floats of their own dtype."""


def output_kind(spec: Any, output: Any) -> str:
    """The kind of an output of a spec or a plan; an empty text where only the graph shows it.

    An output that the next call takes has the kind of that input.

    >>> from onnxfn.specs.facts import gives
    >>> scores, ids = gives("scores", "n 2", path=("logits",)), gives("ids", "n")
    >>> output_kind(scores, scores.outputs[0]), output_kind(ids, ids.outputs[0])
    ('float', '')
    """
    inputs: Mapping[str, str] = {feedback.output: feedback.input for feedback in getattr(spec, "feedback", ())}
    if output.name in inputs:
        return str(spec.inputs[inputs[output.name]].kind)
    if not output.forward_path[:1] or output.forward_path[0] not in FLOAT_RESULTS:
        return ""
    return str(spec.target.io_dtype) if output.name in getattr(spec, "io_names", ()) else "float"

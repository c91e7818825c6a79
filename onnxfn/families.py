"""Families: what architectures of one kind share. An architecture says only how it differs."""

from __future__ import annotations

from onnxfn.algebra import compose
from onnxfn.caches import kv_cache
from onnxfn.edits import TOKENS, always, case, takes
from onnxfn.generators import generates, padded, sized
from onnxfn.normalizers import constant, either, from_config, quotient, reads
from onnxfn.records import Edit, ExportSpec, Made
from onnxfn.tasks import tasked

DEFAULTS = ExportSpec(opset=18, atol=1e-5, rtol=1e-4, int_dtype="int64")
"""What holds when nobody says otherwise; every plan starts from it."""

per_choice = Edit("with_axis", {"axis": "num_choices", "at": 1, "starting": TOKENS})
"""Every text input gets one row a choice: `[batch_size, num_choices, sequence_length]`."""


# Traced at batch 2 and length 16, so neither is tried again.
text_cases = compose(
    case("one", sized(batch_size=1, sequence_length=7), padded("none")),
    case("right-padded", sized(batch_size=3, sequence_length=11), padded("right")),
    case("left-padded", sized(batch_size=3, sequence_length=24), padded("left")),
)

text_dummies = compose(
    sized(batch_size=2, sequence_length=16),
    generates("token_ids", "integers", high=from_config("vocab_size")),
    generates("segment_ids", "integers", high=from_config("type_vocab_size")),
    padded("right"),
)

text_reads = reads(
    vocab_size="vocab_size",
    type_vocab_size=either("type_vocab_size", constant(2)),
    hidden_size="hidden_size",
    num_layers="num_hidden_layers",
    num_attention_heads="num_attention_heads",
)

choices = compose(
    sized(num_choices=4),
    case("one", sized(num_choices=2)),
    case("right-padded", sized(num_choices=3)),
    case("left-padded", sized(num_choices=5)),
)

text_tasks = compose(
    tasked("feature-extraction"),
    tasked("fill-mask"),
    tasked("multiple-choice", per_choice, spec=choices),
    tasked("question-answering"),
    tasked("text-classification"),
    tasked("token-classification"),
)

text_encoder = compose(text_tasks, text_dummies, text_reads, text_cases, always(return_dict=True))
"""Models that read a whole text at once: BERT and those like it."""

text_inputs = compose(takes("input_ids", TOKENS, "token_ids"), takes("attention_mask", TOKENS, "padding_mask"))
"""Tokens and the mask that says which are padding."""

bert_inputs = compose(text_inputs, takes("token_type_ids", TOKENS, "segment_ids"))
"""Tokens, mask, and which segment each token belongs to."""

text_decoder = compose(
    text_dummies,
    padded("left"),
    generates("token_positions", "positions", mask=Made("padding_mask", TOKENS)),
    text_reads,
    reads(
        num_key_value_heads=either("num_key_value_heads", "num_attention_heads"),
        head_dim=either("head_dim", quotient("hidden_size", "num_attention_heads")),
    ),
    text_cases,
    kv_cache(),
    text_inputs,
    always(return_dict=True, use_cache=False),
    # PyTorch's own float32 is 1.3e-3 away from float64 where logits have a root mean square of 12 (SmolLM2, 30 layers).
    ExportSpec(atol=1e-4, rtol=1e-3),
    tasked("feature-extraction"),
    tasked("feature-extraction-with-past", Edit("with_past", {"direction": "outputs"})),
    tasked("text-generation"),
    tasked("text-generation-with-past", Edit("with_past", {"direction": "both"})),
    tasked("text-classification"),
    tasked("token-classification"),
    tasked("question-answering"),
)
"""Models that write a text token by token: GPT and those like it. Positions are an ingredient of their own."""

_numbered = takes("position_ids", TOKENS, "token_positions")

positions = compose(
    tasked("feature-extraction", spec=_numbered),
    tasked("feature-extraction-with-past", spec=_numbered),
    tasked("text-generation", spec=_numbered),
    tasked("text-generation-with-past", spec=_numbered),
)
"""The place of each token among those that are not padding; heads of classification do without, as in Optimum."""

"""Families of models for text: encoders and decoders."""

from __future__ import annotations

from onnxfn.architectures.families.rows import sized_in
from onnxfn.specs.algebra.compose import compose, from_config, reads
from onnxfn.specs.algebra.dummies import generates, padded, sized
from onnxfn.specs.algebra.facts import TOKENS, always, case, checks, takes
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.edits.caches import kv_cache
from onnxfn.specs.records import Edit, NestedDummy
from onnxfn.specs.tasks.tasks import tasked

text_cases: ExportSpec = compose(
    case("one", sized(batch_size=1, sequence_length=7), padded("none")),
    case("right-padded", sized(batch_size=3, sequence_length=11), padded("right")),
    case("left-padded", sized(batch_size=6, sequence_length=5), padded("left")),
)
"""The cases of the check for texts; one has more texts than tokens. The trace has batch size 2 and length 16."""

text_dummies: ExportSpec = compose(
    sized(batch_size=2, sequence_length=16),
    generates("token_ids", "integers", high=from_config("vocab_size")),
    generates("segment_ids", "integers", high=from_config("type_vocab_size")),
    padded("right"),
)
"""The dummy inputs of texts: token ids, segment ids and a padding mask."""

texts: ExportSpec = compose(text_dummies, text_cases, always(return_dict=True))
"""The dummies of texts and the cases of their check, for a model that returns a dict."""

text_reads: ExportSpec = reads(type_vocab_size="type_vocab_size or 2", num_layers="num_hidden_layers")
"""The keys of sizes in the configuration of a text model, where they have other names than in specs."""

choice_sizes: ExportSpec = sized_in("one right-padded left-padded", num_choices=(4, 2, 3, 5))
"""The number of choices in the trace and in each case of the check."""

text_tasks: ExportSpec = compose(
    *map(tasked, ("feature-extraction", "fill-mask")),
    # every text input is `[batch_size, num_choices, sequence_length]`
    tasked("multiple-choice", Edit("with_axis", {"axis": "num_choices", "at": 1, "starting": TOKENS}), choice_sizes),
    *map(tasked, ("question-answering", "text-classification", "token-classification")),
)
"""The tasks of text encoders."""

text_encoder: ExportSpec = compose(text_tasks, texts, generates("token_positions", "positions"), text_reads)
"""Models that read a text as a whole: BERT, RoBERTa, DeBERTa.

Inputs: none. Compose it with `text_inputs` or `bert_inputs`.
Tasks: feature-extraction, fill-mask, multiple-choice, question-answering, text-classification, token-classification.
"""

text_inputs: ExportSpec = compose(
    takes("input_ids", TOKENS, "token_ids"), takes("attention_mask", TOKENS, "padding_mask")
)
"""The inputs of models for text: `input_ids` and `attention_mask`, `[batch_size, sequence_length]` each."""

bert_inputs: ExportSpec = compose(text_inputs, takes("token_type_ids", TOKENS, "segment_ids"))
"""The inputs of BERT: those of `text_inputs` and `token_type_ids`, the segment of each token."""

box_inputs: ExportSpec = compose(
    takes("bbox", f"{TOKENS} 4", "boxes"), generates("boxes", "boxes", high=from_config("max_2d_position_embeddings"))
)
"""A box per token: left, top, right, bottom."""

global_mask_dummies: ExportSpec = compose(
    generates("global_mask", "first_one"),
    case("one", generates("global_mask", "constant", value=0)),
    case("right-padded", generates("global_mask", "integers", high=2)),
    case("left-padded", generates("global_mask", "integers", high=2)),
)
"""The dummies of a mask of global tokens (Longformer, LED): one per row in the trace; in cases none, or any number."""

decoder_without_cache: ExportSpec = compose(
    text_dummies,
    padded("left"),
    generates("token_positions", "positions", mask=NestedDummy("padding_mask", TOKENS)),
    text_reads,
    reads(
        num_key_value_heads="num_key_value_heads or num_attention_heads",
        head_dim="head_dim or hidden_size // num_attention_heads",
    ),
    text_cases,
    text_inputs,
    always(return_dict=True, use_cache=False),
    checks(mask_input="attention_mask"),
    tasked("feature-extraction"),
    tasked("feature-extraction-with-past", Edit("with_past", {"direction": "outputs"})),
    tasked("text-generation"),
    tasked("text-generation-with-past", Edit("with_past", {"direction": "both"})),
    *map(tasked, ("text-classification", "token-classification", "question-answering")),
)
"""`text_decoder` without a KV cache, for models whose layers all have a recurrent state: Mamba."""

text_decoder: ExportSpec = compose(decoder_without_cache, kv_cache())
"""Models that generate a text token by token: GPT-2, Llama, Mixtral.

Inputs: `input_ids`, `attention_mask`, and the KV cache in text-generation-with-past. `position_ids` come with
`positions`.
Tasks: feature-extraction and text-generation, each also `-with-past`; text-classification, token-classification,
question-answering. A row chooses among them with `only_tasks`.
"""

positions: ExportSpec = takes("position_ids", TOKENS, "token_positions")
"""The input `position_ids` of a model for text: the position of each token; a decoder does not count padding."""

FEATURES = ("feature-extraction", "feature-extraction-with-past")
GENERATION = ("text-generation", "text-generation-with-past")

generation_positions: ExportSpec = compose(*(tasked(task, positions) for task in (*FEATURES, *GENERATION)))
"""`positions` in feature-extraction and text-generation alone. As in Optimum, classification has no such input."""

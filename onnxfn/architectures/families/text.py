"""Models that read and write texts, and those that hear speech and write what was said."""

from __future__ import annotations

from onnxfn.specs.compose import compose
from onnxfn.specs.dummies import generates, padded, sized
from onnxfn.specs.edits.behaviors import STEMS, behaves, encoder_and_decoder, encoder_and_merged_decoder, one_file
from onnxfn.specs.edits.caches import cross_cache, kv_cache
from onnxfn.specs.facts import SOURCE, TARGET, TOKENS, always, builds, case, checks, gives, links, runs, takes
from onnxfn.specs.getters import constant, either, from_config, quotient, reads
from onnxfn.specs.records import Edit, NestedDummy
from onnxfn.specs.spec import ExportSpec
from onnxfn.specs.tasks import tasked

choice_axis = Edit("with_axis", {"axis": "num_choices", "at": 1, "starting": TOKENS})
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

choice_sizes = compose(
    sized(num_choices=4),
    case("one", sized(num_choices=2)),
    case("right-padded", sized(num_choices=3)),
    case("left-padded", sized(num_choices=5)),
)

text_tasks = compose(
    tasked("feature-extraction"),
    tasked("fill-mask"),
    tasked("multiple-choice", choice_axis, spec=choice_sizes),
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
    generates("token_positions", "positions", mask=NestedDummy("padding_mask", TOKENS)),
    text_reads,
    reads(
        num_key_value_heads=either("num_key_value_heads", "num_attention_heads"),
        head_dim=either("head_dim", quotient("hidden_size", "num_attention_heads")),
    ),
    text_cases,
    kv_cache(),
    text_inputs,
    always(return_dict=True, use_cache=False),
    # Thirty layers of SmolLM2, logits of root mean square 12: PyTorch's float32 is 5e-4 from its float64, ONNX Runtime
    # 8e-4; at padding, which means nothing, 2e-3 and 5e-3.
    checks(mask_input="attention_mask", atol=1e-4, rtol=1e-3),
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

# Traced at batch 2 and length 16 of all; the words of an encoder-decoder's lengths are its own.
seq2seq_dummies = compose(
    sized(batch_size=2, encoder_sequence_length=16, decoder_sequence_length=16, past_decoder_sequence_length=16),
    case("one", sized(encoder_sequence_length=7, decoder_sequence_length=3, past_decoder_sequence_length=21)),
    case("right-padded", sized(encoder_sequence_length=11, decoder_sequence_length=1, past_decoder_sequence_length=9)),
    case("left-padded", sized(encoder_sequence_length=24, decoder_sequence_length=5, past_decoder_sequence_length=4)),
    generates("hidden_states", "normal"),
)

seq2seq_reads = reads(
    hidden_size="d_model",
    decoder_num_layers="decoder_layers",
    decoder_num_attention_heads="decoder_attention_heads",
    decoder_head_dim=quotient("hidden_size", "decoder_num_attention_heads"),
)


def encoder_decoder_cache(after: str) -> ExportSpec:
    """The cache of an encoder-decoder, its tensors standing after this input."""
    size = "decoder_head_dim"
    return cross_cache(heads="decoder_num_attention_heads", key=size, value=size, after=after)


decoder_ids = takes("decoder_input_ids", TARGET, "token_ids")
"""The tokens that a decoder has written so far, or the new ones where it takes a past."""

# ONNX calls the tensors of a decoder by the names that they have inside it.
encoder_states = compose(
    takes(
        "encoder_hidden_states",
        f"{SOURCE} hidden_size=",
        "hidden_states",
        kind="float",
        path=("encoder_outputs", "last_hidden_state"),
    ),
    builds("encoder_outputs", "encoder_output"),
    links("encoder_hidden_states", part=STEMS["encoder"], output="last_hidden_state"),
    links("encoder_attention_mask", part=STEMS["encoder"], output="attention_mask"),
)
encoder_mask = takes("encoder_attention_mask", SOURCE, "padding_mask", path=("attention_mask",))
next_ids = compose(
    takes("input_ids", TARGET, "token_ids", path=("decoder_input_ids",)), encoder_decoder_cache("input_ids")
)

seq2seq = compose(
    text_dummies,
    seq2seq_dummies,
    text_reads,
    seq2seq_reads,
    text_cases,
    always(return_dict=True, use_cache=False),
)

seq2seq_features = gives("last_hidden_state", f"{TARGET} _")

seq2seq_tasks = compose(
    tasked("feature-extraction", spec=compose(seq2seq_features, one_file())),
    tasked("feature-extraction-with-past", spec=compose(seq2seq_features, encoder_and_merged_decoder())),
)

encoder_inputs = compose(takes("input_ids", SOURCE, "token_ids"), takes("attention_mask", SOURCE, "padding_mask"))

text_seq2seq = compose(
    seq2seq,
    behaves("monolith", encoder_inputs, decoder_ids, encoder_decoder_cache("decoder_input_ids")),
    behaves("decoder", encoder_states, encoder_mask, next_ids),
    behaves("encoder", encoder_inputs, runs("encoder"), gives("last_hidden_state", f"{SOURCE} _")),
    seq2seq_tasks,
    tasked("text2text-generation", spec=encoder_and_decoder()),
    tasked("text2text-generation-with-past", spec=encoder_and_merged_decoder()),
)
"""Models that read a text and write another: T5, BART, Marian and those like them."""

_alone = compose(
    text_inputs,
    kv_cache(
        heads="decoder_num_attention_heads",
        key="decoder_head_dim",
        value="decoder_head_dim",
        layers="decoder_num_layers",
    ),
    builds("past_key_values", "dynamic_cache_without_config"),
)

standalone_decoder = compose(
    tasked("text-generation", spec=_alone),
    tasked("text-generation-with-past", Edit("with_past", {"direction": "both"}), spec=_alone),
)
"""The decoder of an encoder-decoder as a model of its own, as BartForCausalLM is."""

speech_seq2seq = compose(
    seq2seq,
    seq2seq_tasks,
    tasked("automatic-speech-recognition", spec=encoder_and_decoder()),
    tasked("automatic-speech-recognition-with-past", spec=encoder_and_merged_decoder()),
)
"""Models that hear speech and write a text: Whisper and those like it. What they hear is the row's to say."""

"""Families of encoder-decoders, for text, for images and for speech."""

from __future__ import annotations

from onnxfn.architectures.families.rows import sized_in
from onnxfn.architectures.families.text import text_cases, text_dummies, text_inputs, text_reads
from onnxfn.specs.algebra.compose import EMPTY, compose, reads
from onnxfn.specs.algebra.dummies import sized
from onnxfn.specs.algebra.facts import SOURCE, TARGET, TOKENS, always, builds, case, gives, links, runs, takes
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.converters import Path
from onnxfn.specs.edits.behaviors import STEMS, behaves, decoder_with_past, extra_file
from onnxfn.specs.edits.caches import cross_cache, kv_cache
from onnxfn.specs.edits.token_embeddings import EMBEDS
from onnxfn.specs.records import Edit
from onnxfn.specs.tasks.tasks import WITH_PAST, tasked

STATES = f"{SOURCE} _"
"""The axes of an encoder's output that is as long as its input."""


def decoder_reads(layers: str, heads: str, head_size: str) -> ExportSpec:
    """A spec of where a configuration has the decoder's number of layers, that of their heads, and the size of one."""
    return reads(decoder_num_layers=layers, decoder_num_attention_heads=heads, decoder_head_dim=head_size)


t5_reads: ExportSpec = decoder_reads("num_decoder_layers", "num_heads", "d_kv")
"""The keys of the decoder's sizes in the configuration of T5."""

seq2seq: ExportSpec = compose(
    text_dummies,
    sized(batch_size=2, encoder_sequence_length=16, decoder_sequence_length=16, past_decoder_sequence_length=16),
    case("one", sized(encoder_sequence_length=7, decoder_sequence_length=3, past_decoder_sequence_length=21)),
    case("right-padded", sized(encoder_sequence_length=11, decoder_sequence_length=1, past_decoder_sequence_length=9)),
    case("left-padded", sized(encoder_sequence_length=24, decoder_sequence_length=5, past_decoder_sequence_length=4)),
    text_reads,
    # BART and similar models
    reads(hidden_size="d_model"),
    decoder_reads("decoder_layers", "decoder_attention_heads", "hidden_size // decoder_num_attention_heads"),
    text_cases,
    always(return_dict=True, use_cache=False),
)
"""The common facts of encoder-decoders: dummy inputs, cases of the check, constants; no inputs and no tasks."""


def encoder_decoder_cache(after: str, **options: str) -> ExportSpec:
    """A spec of the cache of an encoder-decoder: four tensors per layer, after the input `after`."""
    size = "decoder_head_dim"
    return cross_cache(heads="decoder_num_attention_heads", key=size, value=size, after=after, **options)


encoder_inputs: ExportSpec = compose(
    takes("input_ids", SOURCE, "token_ids"), takes("attention_mask", SOURCE, "padding_mask")
)
"""The text that the encoder reads: `input_ids` and `attention_mask`."""

decoder_ids: ExportSpec = takes("decoder_input_ids", TARGET, "token_ids")
"""The tokens of the decoder, in a graph that also has the encoder."""


def source_states(axes: str = SOURCE, path: Path = ()) -> ExportSpec:
    """A spec of the states that the decoder attends to, as the argument of `forward` at a path."""
    return takes("encoder_hidden_states", f"{axes} hidden_size=", "normal", kind="float", path=path)


encoder_states: ExportSpec = compose(
    source_states(path=("encoder_outputs", "last_hidden_state")),
    builds("encoder_outputs", "encoder_output"),
    links("encoder_hidden_states", part=STEMS["encoder"], output="last_hidden_state"),
    links("encoder_attention_mask", part=STEMS["encoder"], output="attention_mask"),
)
"""The output of the encoder as an input of the decoder. ONNX names of a decoder are those inside the decoder."""

encoder_mask: ExportSpec = takes("encoder_attention_mask", SOURCE, "padding_mask", path=("attention_mask",))
"""The padding mask of the encoder's text as an input of the decoder."""

next_ids: ExportSpec = compose(
    takes("input_ids", TARGET, "token_ids", path=("decoder_input_ids",)), encoder_decoder_cache("input_ids")
)
"""The new tokens of the decoder, and its cache."""

ENCODER_FILE = extra_file("encoder_model", "encoder")


def encodes(inputs: ExportSpec, states: str = STATES) -> ExportSpec:
    """A spec of the encoder: from these inputs to `last_hidden_state` with the axes `states`."""
    return behaves("encoder", inputs, runs("encoder"), gives("last_hidden_state", states))


def encoder_and_monolith(inputs: ExportSpec, states: str = STATES, *outputs: ExportSpec) -> ExportSpec:
    """A spec of the encoder of these inputs, and of the model in one file, which also has these outputs."""
    whole = behaves("monolith", inputs, decoder_ids, encoder_decoder_cache("decoder_input_ids"), *outputs)
    return compose(whole, encodes(inputs, states))


def generation_tasks(
    task: str, *specs: ExportSpec, encoder: ExportSpec = ENCODER_FILE, extra_files: ExportSpec = EMPTY
) -> ExportSpec:
    """A spec of a task of an encoder-decoder, without and with past.

    `specs`: what both tasks need. `encoder`: the files before the decoder. `extra_files` are written after it.
    """
    return compose(
        tasked(task, *specs, encoder, extra_file("decoder_model", "decoder"), extra_files),
        tasked(f"{task}{WITH_PAST}", *specs, encoder, decoder_with_past(), extra_files),
    )


_features = gives("last_hidden_state", f"{TARGET} _")

seq2seq_tasks: ExportSpec = compose(
    tasked("feature-extraction", _features, extra_file("model", "monolith")),
    tasked("feature-extraction-with-past", _features, ENCODER_FILE, decoder_with_past()),
)
"""The tasks that all encoder-decoders have: feature-extraction, also with past."""

text_seq2seq: ExportSpec = compose(
    seq2seq,
    behaves("monolith", encoder_inputs, decoder_ids, encoder_decoder_cache("decoder_input_ids")),
    behaves("decoder", encoder_states, encoder_mask, next_ids),
    encodes(encoder_inputs),
    seq2seq_tasks,
    generation_tasks("text2text-generation"),
)
"""Models that read a text and generate another: T5, BART, Marian.
"""


def image_seq2seq(inputs: ExportSpec) -> ExportSpec:
    """A spec of an encoder-decoder from images, with these inputs, to a text."""
    return compose(
        behaves("monolith", inputs, decoder_ids, encoder_decoder_cache("decoder_input_ids")),
        behaves("decoder", encoder_states, next_ids),
        encodes(inputs, "batch_size _ _"),
        generation_tasks("image-text-to-text", gives("logits", f"{TARGET} _")),
    )


_causal_lm = compose(
    text_inputs,
    kv_cache(
        heads="decoder_num_attention_heads",
        key="decoder_head_dim",
        value="decoder_head_dim",
        layers="decoder_num_layers",
    ),
    builds("past_key_values", "dynamic_cache_without_config"),
)

standalone_decoder: ExportSpec = compose(
    tasked("text-generation", _causal_lm),
    tasked("text-generation-with-past", Edit("with_past", {"direction": "both"}), _causal_lm),
)
"""The decoder of an encoder-decoder as a separate model (BartForCausalLM): text-generation, also with past."""

speech_seq2seq: ExportSpec = compose(seq2seq, seq2seq_tasks, generation_tasks("automatic-speech-recognition"))
"""Models that read audio and generate a text: Whisper, Moonshine. A row adds the inputs of encoder and decoder."""


def _embedded(axes: str, path: Path = ()) -> ExportSpec:
    return takes(EMBEDS, f"{axes} embedding_width=", "normal", kind="float", path=path)


encoder_and_decoder_of_embeddings: ExportSpec = compose(
    encodes(compose(_embedded(SOURCE), takes("attention_mask", SOURCE, "padding_mask"))),
    behaves(
        "decoder",
        runs("decoders.decoder_of_embeddings"),
        encoder_states,
        encoder_mask,
        _embedded(TARGET, ("decoder_inputs_embeds",)),
        encoder_decoder_cache(EMBEDS),
    ),
)
"""The encoder of the embeddings of a text with images, and the decoder of the embeddings of its own tokens."""

token_rows: ExportSpec = compose(text_dummies, text_cases, _embedded(TOKENS))
"""The outputs of the token embedding, for the encoder and for the decoder."""

AUDIO = "batch_size audio_sequence_length"
"""The axes of a padding mask of audio. The encoder shortens its input, so its output has another length."""

audio_mask: ExportSpec = takes("encoder_attention_mask", AUDIO, "padding_mask", path=("attention_mask",))
"""The padding mask of the audio as an input of the decoder, which shortens it as the encoder does."""


def input_lengths(traced: int, single: int, right_padded: int, left_padded: int) -> ExportSpec:
    """A spec of the length of the encoder's input in the trace and in each case of the check."""
    return sized_in("one right-padded left-padded", encoder_sequence_length=(traced, single, right_padded, left_padded))


def mask_lengths(traced: int, *checked: int) -> ExportSpec:
    """A spec of the length of the decoder's audio mask in the trace and each case, the last two for a merged one."""
    # Choose lengths that the encoder shortens to about as many states as the case has.
    return compose(
        sized_in("one right-padded left-padded prompt prompts", audio_sequence_length=(traced, *checked)),
        sized_in("prompt prompts", encoder_sequence_length=(None, 9, 21)),
    )


def audio_encoder(inputs: ExportSpec, states: str) -> ExportSpec:
    """A spec of an encoder of audio, and of the model in one file, which also returns the states, with these axes."""
    return encoder_and_monolith(inputs, states, gives("encoder_last_hidden_state", states))


def audio_decoder(builder: str, *lengths: int) -> ExportSpec:
    """A spec of a decoder whose `encoder_outputs`, made by `builder`, holds the encoder's states and a mask."""
    return behaves(
        "decoder",
        encoder_states,
        takes("encoder_attention_mask", AUDIO, "padding_mask", path=("encoder_outputs", "attention_mask")),
        next_ids,
        builds("encoder_outputs", builder),
        mask_lengths(*lengths),
    )


mel_inputs: ExportSpec = compose(
    takes("input_features", f"{SOURCE} num_features=", "normal", kind="float"),
    takes("attention_mask", SOURCE, "padding_mask"),
)
"""Mel spectrograms `[batch_size, encoder_sequence_length, num_features]`, and their padding mask."""

waveform_inputs: ExportSpec = compose(
    takes("input_values", SOURCE, "normal", kind="float"),
    takes("attention_mask", SOURCE, "padding_mask"),
    input_lengths(16000, single=9001, right_padded=12000, left_padded=7500),
)
"""Waveforms `[batch_size, encoder_sequence_length]`, and their padding mask. The trace has 1 second at 16 kHz."""

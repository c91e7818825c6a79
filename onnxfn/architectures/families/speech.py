"""Encoders and decoders of models that read audio and generate a text."""

from __future__ import annotations

from onnxfn.architectures.families.seq2seq import (
    decoder_ids,
    encoder_decoder_cache,
    encoder_states,
    encodes,
    next_ids,
)
from onnxfn.architectures.families.sizes import sized_in
from onnxfn.specs.algebra.compose import compose
from onnxfn.specs.algebra.dummies import sized
from onnxfn.specs.algebra.facts import SOURCE, builds, case, gives, takes
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.edits.behaviors import behaves

AUDIO = "batch_size audio_sequence_length"
"""The axes of a padding mask of audio. The encoder shortens its input, so its output has another length."""

audio_mask: ExportSpec = takes("encoder_attention_mask", AUDIO, "padding_mask", path=("attention_mask",))
"""The padding mask of the audio as an input of the decoder, which shortens it as the encoder does."""


def input_lengths(traced: int, single: int, right_padded: int, left_padded: int) -> ExportSpec:
    """A spec of the length of the encoder's input in the trace and in each case of the check."""
    return sized_in("one right-padded left-padded", encoder_sequence_length=(traced, single, right_padded, left_padded))


def mask_lengths(traced: int, *checked: int) -> ExportSpec:
    """A spec of the length of the decoder's audio mask in the trace and in each case of the check.

    Choose lengths that the encoder shortens to about as many states as the case has. `prompt` and `prompts` are the
    cases of a merged decoder without a past. Their numbers of states are repeated here, because a decoder in a file of
    its own gets these cases too.

    Args:
        traced: The length in the trace.
        checked: The lengths in the cases one, right-padded, left-padded, prompt and prompts.
    """
    names = ("one", "right-padded", "left-padded", "prompt", "prompts")
    masks = (case(name, sized(audio_sequence_length=length)) for name, length in zip(names, checked, strict=True))
    states = {"prompt": 9, "prompts": 21}
    prompts = (case(name, sized(encoder_sequence_length=length)) for name, length in states.items())
    return compose(sized(audio_sequence_length=traced), *masks, *prompts)


def audio_encoder(inputs: ExportSpec, states: str, *, monolith_states: bool = True) -> ExportSpec:
    """A spec of an encoder of audio, and of the model in one file.

    Args:
        inputs: The audio inputs.
        states: The axes of the encoder's output.
        monolith_states: Whether the model in one file also returns the encoder's output.
    """
    outputs = (gives("encoder_last_hidden_state", states),) if monolith_states else ()
    return compose(
        behaves("monolith", inputs, decoder_ids, encoder_decoder_cache("decoder_input_ids"), *outputs),
        encodes(inputs, states),
    )


def audio_decoder(builder: str, *lengths: int) -> ExportSpec:
    """A spec of a decoder whose argument `encoder_outputs` holds the encoder's states and a mask of them.

    Args:
        builder: The function that builds the argument from the states and the audio mask.
        lengths: The lengths of the audio mask: see `mask_lengths`.
    """
    return behaves(
        "decoder",
        encoder_states,
        takes("encoder_attention_mask", AUDIO, "padding_mask", path=("encoder_outputs", "attention_mask")),
        next_ids,
        builds("encoder_outputs", builder),
        mask_lengths(*lengths),
    )


mel_inputs: ExportSpec = compose(
    takes("input_features", f"{SOURCE} num_features=", "mel", kind="float"),
    takes("attention_mask", SOURCE, "padding_mask"),
)
"""Mel spectrograms `[batch_size, encoder_sequence_length, num_features]`, and their padding mask."""

waveform_inputs: ExportSpec = compose(
    takes("input_values", SOURCE, "waveform", kind="float"),
    takes("attention_mask", SOURCE, "padding_mask"),
    input_lengths(16000, single=9001, right_padded=12000, left_padded=7500),
)
"""Waveforms `[batch_size, encoder_sequence_length]`, and their padding mask. The trace has 1 second at 16 kHz."""

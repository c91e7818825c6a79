"""The inputs that only matter where `forward` requires them, in the forms in which to try them.

Most models take them in place of their own inputs (`inputs_embeds` for `input_ids`), and are not tried with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from onnxfn.architectures.families.sizes import sized_in
from onnxfn.export.derive.known_inputs import NUM_MEL_BINS, Forms
from onnxfn.specs.algebra.compose import compose, either, reads
from onnxfn.specs.algebra.dummies import generates
from onnxfn.specs.algebra.facts import TOKENS, takes

LENGTHS = compose(
    generates("states", "normal"),
    sized_in("one several", batch_size=(2, 1, 3), sequence_length=(16, 11, 21)),
)
"""States of 11 to 21 steps."""

STATES = compose(
    LENGTHS,
    takes("inputs_embeds", f"{TOKENS} states_size=", "states", kind="float"),
    takes("attention_mask", TOKENS, "padding_mask"),
    reads(states_size="hidden_size or text_config.hidden_size"),
)
"""The states of another model, with their mask."""

MEL_FRAMES = compose(
    LENGTHS,
    takes("audio_mel", f"{TOKENS} mel_bins=", "states", kind="float"),
    takes("audio_mel_mask", TOKENS, "left_out", kind="bool"),
    generates("left_out", "integers", high=2),
    reads(mel_bins=either("input_feat_size", NUM_MEL_BINS)),
    sized_in("one several", sequence_length=(64, 48, 96)),
)
"""Spectrograms whose mask is true for frames that are left out."""

REQUIRED_FORMS: Mapping[str, Forms] = MappingProxyType(
    {
        "inputs_embeds": (STATES,),
        "audio_mel": (MEL_FRAMES,),
    }
)
"""Name of an input -> its forms, tried where `forward` requires the input."""

"""`whisper_for_genai`: Whisper as onnxruntime-genai loads it, whose encoder computes the cross-attention's cache."""

from __future__ import annotations

from attrs import evolve

from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.axes import AxisMap, axis_map
from onnxfn.specs.edits.as_edit import as_edit
from onnxfn.specs.edits.behaviors import with_behavior
from onnxfn.specs.edits.renaming import renamed
from onnxfn.specs.edits.tensors import with_constants, with_dtypes, with_output
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.records import CacheRow, Edit, File

CROSS = "encoder."
"""The prefix of the names of rows in the cross-attention's cache."""


@as_edit
def whisper_for_genai(spec: ExportSpec) -> ExportSpec:
    """The spec of Whisper written as onnxruntime-genai 0.18 loads it: `encoder.onnx` and `decoder.onnx`.

    The encoder takes `audio_features`, and gives `hidden_states` and the cross-attention's keys and values,
    `present_key_cross_0`, ... The decoder takes these, int32 tokens and its own cache, `past_key_self_0`, ...
    With the layout `hub`, the folder has a `genai_config.json` for them.

    Args:
        spec: A spec of Whisper for automatic-speech-recognition-with-past.

    Raises:
        InvalidSpec: the spec is for no task yet, or has no cross-attention.

    >>> from onnxfn import spec_for
    >>> whisper = whisper_for_genai(spec_for("whisper", "automatic-speech-recognition-with-past"))
    >>> [file.name for file in whisper.parts.files]
    ['encoder', 'decoder']
    """
    for edit in (genai_encoder, genai_decoder):
        edit(spec)
    files = (File("encoder", (Edit(genai_encoder.__name__),)), File("decoder", (Edit(genai_decoder.__name__),)))
    return evolve(spec, parts=evolve(spec.parts, files=files))


def genai_encoder(spec: ExportSpec) -> ExportSpec:
    """The spec of the model run on one token, with the outputs that depend on the sound alone: states, keys, values."""
    whole = with_behavior(spec, "monolith", past="outputs")
    rows = tuple(_returned(row) for row in whole.cache.rows if row.name.startswith(CROSS))
    if not rows or "decoder_input_ids" not in whole:
        raise InvalidSpec(f"{spec.name or 'this spec'} has no cross-attention whose cache an encoder could compute")
    inputs = (evolve(each, axes="batch_size 1") if each.name == "decoder_input_ids" else each for each in whole.inputs)
    alone = evolve(whole, inputs=tuple(inputs), outputs=(), cache=evolve(whole.cache, rows=rows))
    states = with_output(alone, "hidden_states", "batch_size _ _", path=("encoder_last_hidden_state",))
    names = {f"present.{{layer}}.encoder.{kind}": f"present_{kind}_cross_{{layer}}" for kind in ("key", "value")}
    return renamed(with_constants(states, decoder_input_ids=0), input_features="audio_features", **names)


def genai_decoder(spec: ExportSpec) -> ExportSpec:
    """The spec of a decoder that reads the sound from the cross-attention's cache alone, and takes int32 tokens."""
    decoder = with_constants(with_behavior(spec, "decoder", past="both"), encoder_hidden_states=0.0)
    past = {
        f"past_key_values.{{layer}}.{side}.{kind}": f"past_{kind}_{word}_{{layer}}"
        for side, word in (("decoder", "self"), ("encoder", "cross"))
        for kind in ("key", "value")
    }
    present = {f"present.{{layer}}.decoder.{kind}": f"present_{kind}_self_{{layer}}" for kind in ("key", "value")}
    return renamed(with_dtypes(decoder, input_ids="int32"), **past, **present)


def _returned(row: CacheRow) -> CacheRow:
    """A row of the cross-attention's cache as an output; the configuration fixes its length."""
    batch, heads, _, size = row.output_axes.axes
    name = row.input_name.replace("past_key_values", "present")
    return evolve(row, output_name=name, output_axes=AxisMap((batch, heads, *axis_map("_").axes, size)))

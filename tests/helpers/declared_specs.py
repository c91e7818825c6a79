"""The specs that rows declare, and those of which specs are derived: all that name a patch or a wrapper."""

from onnxfn import ARCHITECTURES, ExportSpec
from onnxfn.architectures.families.feature_inputs import ONE_SIZED_IMAGE, ONE_WAVE
from onnxfn.architectures.families.features import (
    FEATURES,
    inner_decoder,
    prefix_decoder,
    token_table,
    tower,
    wide_decoder,
)
from onnxfn.architectures.families.image_tokens import drawing_parts
from onnxfn.architectures.families.seq2seq import encoder_and_decoder_of_embeddings
from onnxfn.architectures.seq2seq import SEEING
from onnxfn.specs.stored.serialize import to_plain


def with_overlays(spec):
    yield spec
    for overlay in (*spec.tasks, *spec.cases, *spec.parts.behaviors):
        yield from with_overlays(overlay.spec)


def tensors_in(data):
    """`(record, name)` of every input and output in a spec as plain data, except in cases and edits."""
    if isinstance(data, dict):
        if data.get("record") in ("InputSpec", "OutputSpec"):
            yield data["record"], data["name"]
        yield from (pair for key, inner in data.items() if key not in ("cases", "edits") for pair in tensors_in(inner))
    elif isinstance(data, list):
        yield from (pair for inner in data for pair in tensors_in(inner))


def every_name(spec):
    return sorted({name for _, name in tensors_in(to_plain(spec))})


def specs_of_rows():
    return [spec for row in ARCHITECTURES.values() for spec in with_overlays(row)]


def specs_for_derivation():
    values = [inner_decoder, prefix_decoder, token_table, wide_decoder, ONE_SIZED_IMAGE, *map(tower, FEATURES)]
    values += [ONE_WAVE, encoder_and_decoder_of_embeddings, *SEEING.values(), drawing_parts(ExportSpec())]
    return [spec for value in values for spec in with_overlays(value)]

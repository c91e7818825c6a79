"""The specs that rows declare, and those of which specs are derived: all that name a patch or a wrapper."""

from onnxfn.architectures import ARCHITECTURES
from onnxfn.architectures.encoder_decoders import SEEING
from onnxfn.architectures.families.feature_inputs import ONE_SIZED_IMAGE
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
from onnxfn.specs.algebra.spec import ExportSpec


def with_overlays(spec):
    """A spec, and the specs of its tasks, cases and behaviors, at any depth."""
    yield spec
    for overlay in (*spec.tasks, *spec.cases, *spec.parts.behaviors):
        yield from with_overlays(overlay.spec)


def specs_of_rows():
    return [spec for row in ARCHITECTURES.values() for spec in with_overlays(row)]


def specs_for_derivation():
    values = [inner_decoder, prefix_decoder, token_table, wide_decoder, ONE_SIZED_IMAGE, *map(tower, FEATURES)]
    values += [encoder_and_decoder_of_embeddings, *SEEING.values(), drawing_parts(ExportSpec())]
    return [spec for value in values for spec in with_overlays(value)]

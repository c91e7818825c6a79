"""The edits by name, for specs that hold an edit as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.edits.behaviors import cross_attention, merged_decoder, part_alone, with_behavior
from onnxfn.specs.edits.caches import with_past, with_single_steps
from onnxfn.specs.edits.extra_outputs import with_known_output
from onnxfn.specs.edits.new_axes import with_axis
from onnxfn.specs.edits.tensors import with_opset, with_output, with_shapes, with_tolerance
from onnxfn.specs.edits.token_embeddings import embedding_lookup, with_inputs_embeds
from onnxfn.specs.edits.whisper_for_genai import genai_decoder, genai_encoder
from onnxfn.specs.errors import InvalidSpec, shortened, unknown
from onnxfn.specs.records import Edit


def edited(spec: ExportSpec, edits: tuple[Edit, ...]) -> ExportSpec:
    """The spec after these edits, in order.

    Raises:
        UnknownName: an edit names a function that is not in EDITS.
        InvalidSpec: an edit has arguments that its function does not take.
    """
    for edit in edits:
        if edit.function not in EDITS:
            raise unknown("edit", edit.function, EDITS)
        try:
            spec = EDITS[edit.function](spec, **dict(edit.arguments))
        except (TypeError, AttributeError) as problem:
            message = f"edit {edit.function!r} does not take the arguments {shortened(dict(edit.arguments))}: {problem}"
            raise InvalidSpec(message) from problem
    return spec


EDITS: Mapping[str, Callable[..., ExportSpec]] = MappingProxyType(
    {
        edit.__name__: edit
        for edit in (
            cross_attention,
            embedding_lookup,
            genai_decoder,
            genai_encoder,
            merged_decoder,
            part_alone,
            with_axis,
            with_behavior,
            with_inputs_embeds,
            with_known_output,
            with_opset,
            with_output,
            with_past,
            with_shapes,
            with_single_steps,
            with_tolerance,
        )
    }
)
"""Name -> function. Specs that were saved hold these names."""

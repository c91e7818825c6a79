"""`with_mrope`: positions in time, height and width, of models with multimodal rotary embeddings (M-RoPE)."""

from __future__ import annotations

from attrs import evolve

from onnxfn.specs.algebra.compose import compose
from onnxfn.specs.algebra.dummies import generates
from onnxfn.specs.algebra.facts import TOKENS
from onnxfn.specs.algebra.spec import ExportSpec, with_changed_input
from onnxfn.specs.axes import AxisMap, axis_map, inserted, pattern
from onnxfn.specs.edits.as_edit import as_edit
from onnxfn.specs.edits.optional_inputs import with_input
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.records import InputSpec, NestedDummy

POSITIONS, GENERATOR = "position_ids", "mrope_positions"

MROPE_AXES: AxisMap = inserted(axis_map(TOKENS), 0, "3")
"""The axes of positions in time, height and width."""


@as_edit
def with_mrope(spec: ExportSpec) -> ExportSpec:
    """The spec whose `position_ids` are `[3, batch_size, sequence_length]`: positions in time, height and width.

    Models with multimodal rotary embeddings (M-RoPE) take them, and programs such as transformers.js give them to these
    models: Qwen2-VL, Qwen3.5, GLM-OCR. For a text alone the three are equal.

    Args:
        spec: A spec that takes tokens. It need not take `position_ids` yet.

    Raises:
        UnknownName: the spec takes no tokens.
        InvalidSpec: its `position_ids` are not those of a text, `[batch_size, sequence_length]`.

    Source: "Qwen2-VL: Enhancing Vision-Language Model's Perception of the World at Any Resolution", arXiv 2409.12191.

    >>> from onnxfn import spec_for
    >>> with_mrope(spec_for("qwen3_5_text", "text-generation-with-past"))["position_ids"].axes
    axis_map('3 batch_size sequence_length')
    """
    return compose(
        with_changed_input(with_input(spec, POSITIONS), POSITIONS, _with_three),
        generates(GENERATOR, "mrope_positions", text=NestedDummy("token_positions", TOKENS)),
    )


def _with_three(tensor: InputSpec) -> InputSpec:
    if tensor.axes == MROPE_AXES:
        return tensor
    if tensor.axes != axis_map(TOKENS):
        raise InvalidSpec(f"{POSITIONS} have the axes {pattern(tensor.axes)!r}, not those of a text: {TOKENS!r}")
    return evolve(tensor, axes=MROPE_AXES, generator=GENERATOR)

"""Inputs of models that their specs omit: masks, positions, segment ids, ...; positions in time, height and width."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from attrs import evolve, field, frozen

from onnxfn.specs.algebra.compose import compose, from_config
from onnxfn.specs.algebra.dummies import generates
from onnxfn.specs.algebra.facts import TOKENS
from onnxfn.specs.algebra.spec import ExportSpec, each_spec, inner_specs, tensor_names, with_changed_input
from onnxfn.specs.axes import AxisMap, axis_map, inserted, pattern
from onnxfn.specs.edits.as_edit import as_edit
from onnxfn.specs.edits.logits_to_keep import NUM_LOGITS_TO_KEEP, computes_logits, with_logits_to_keep
from onnxfn.specs.errors import InvalidSpec, UnknownName, closest, listed
from onnxfn.specs.records import InputSpec, NestedDummy

WITHOUT_POSITIONS = frozenset({"num_channels", "audio_channels", "num_mel_bins"})
"""Axes of an input that its mask lacks: their elements share the position of the mask."""


@frozen
class OptionalInput:
    """An input with an element for each position of one of `of`; its dummies are of `generator`, or `function`."""

    name: str
    of: tuple[str, ...]
    generator: str
    function: str = "mask"
    arguments: Mapping[str, object] = field(factory=dict)


SEGMENTS: Mapping[str, object] = MappingProxyType({"high": from_config("type_vocab_size or 2")})

OPTIONAL_INPUTS: Mapping[str, OptionalInput] = MappingProxyType(
    {
        form.name: form
        for form in (
            OptionalInput("attention_mask", ("input_ids", "input_values", "input_features"), "padding_mask"),
            OptionalInput("token_type_ids", ("input_ids",), "segment_ids", "integers", SEGMENTS),
            OptionalInput("position_ids", ("input_ids",), "token_positions", "positions"),
            OptionalInput("pixel_mask", ("pixel_values",), "pixel_mask"),
            OptionalInput("padding_mask", ("input_values",), "padding_mask"),
            OptionalInput("input_features_mask", ("input_features",), "padding_mask"),
        )
    }
)
"""Name -> the optional input. transformers 5.23 calls them so."""

POSITIONS, GENERATOR = "position_ids", "mrope_positions"

MROPE_AXES: AxisMap = inserted(axis_map(TOKENS), 0, "3")
"""The axes of positions in time, height and width."""


@as_edit
def with_input(spec: ExportSpec, name: str) -> ExportSpec:
    """The spec with one more input: an optional input of its model that its row omits, such as a mask or segment ids.

    `Plan.left_out` of a plan for a model names the omitted inputs, and which of them this edit can add.

    Args:
        spec: A spec.
        name: The name of the input in `forward`: `attention_mask`, `position_ids`, `token_type_ids`, ... Or
            `num_logits_to_keep`, int64 without axes: the graph computes logits only for this number of last tokens, for
            all tokens if it is 0. transformers.js gives it to decoders.

    Returns:
        The spec with the new input in each graph that takes the input it belongs to. It has the axes of that input,
        without channels. A spec that has the input is returned unchanged. With `num_logits_to_keep`, logits are
        `[batch_size, num_logits, vocabulary]`.

    Raises:
        UnknownName: no optional input has such a name, or the spec has no input to which it belongs.

    >>> from onnxfn import spec_for
    >>> with_input(spec_for("wav2vec2", "audio-classification"), "attention_mask")["attention_mask"].axes
    axis_map('batch_size sequence_length')
    >>> with_input(spec_for("llama", "text-generation-with-past"), "num_logits_to_keep")["logits"].axes
    axis_map('batch_size num_logits _')
    """
    if any(tensor.name == name for inner in inner_specs(spec) for tensor in inner.inputs):
        return spec
    if not can_take(spec, name):
        known = [known for known in (*OPTIONAL_INPUTS, NUM_LOGITS_TO_KEEP) if can_take(spec, known)]
        raise UnknownName(
            f"with_input cannot add {name!r} to {spec.name or 'this spec'}; it can add: {listed(known)}"
            f"{closest(name, known)}; describe any other yourself: compose(spec, takes({name!r}, axes, generator))"
        )
    if name == NUM_LOGITS_TO_KEEP:
        return each_spec(spec, with_logits_to_keep)
    form = OPTIONAL_INPUTS[name]
    changed = each_spec(spec, lambda inner: _with_form(inner, form))
    if form.generator in {generator.name for inner in inner_specs(spec) for generator in inner.dummies.generators}:
        return changed
    return compose(changed, generates(form.generator, form.function, **form.arguments))


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


def can_take(spec: ExportSpec, name: str) -> bool:
    """Whether `with_input` can add an input of this name: not to decoders of encoder-decoders, for want of a mask."""
    if name == NUM_LOGITS_TO_KEEP:
        return any(map(computes_logits, inner_specs(spec) if spec.task is None else (spec,)))
    form, present = OPTIONAL_INPUTS.get(name), tensor_names(spec)
    has_decoder = any(behavior.name == "decoder" for behavior in spec.parts.behaviors)
    return form is not None and name not in present and not has_decoder and not {*form.of}.isdisjoint(present)


def _with_form(spec: ExportSpec, form: OptionalInput) -> ExportSpec:
    """The spec with an optional input after the first input to which it belongs; unchanged if it has none."""
    owner = next((tensor for tensor in spec.inputs if tensor.name in form.of), None)
    if owner is None:
        return spec
    axes = AxisMap(tuple(axis for axis in owner.axes.axes if axis.symbol not in WITHOUT_POSITIONS))
    added = InputSpec(form.name, axes, form.generator, when=owner.when)
    inputs = (tensor for other in spec.inputs for tensor in ((other, added) if other is owner else (other,)))
    return evolve(spec, inputs=tuple(inputs))


def _with_three(tensor: InputSpec) -> InputSpec:
    if tensor.axes == MROPE_AXES:
        return tensor
    if tensor.axes != axis_map(TOKENS):
        raise InvalidSpec(f"{POSITIONS} have the axes {pattern(tensor.axes)!r}, not those of a text: {TOKENS!r}")
    return evolve(tensor, axes=MROPE_AXES, generator=GENERATOR)

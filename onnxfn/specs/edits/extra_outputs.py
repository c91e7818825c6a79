"""Extra outputs: hidden states, attention weights and the like, besides the outputs of the task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import evolve
from toolz import reduce

from onnxfn.specs.algebra.compose import compose, either
from onnxfn.specs.algebra.facts import TARGET, always, gives
from onnxfn.specs.algebra.spec import Call, ExportSpec, Overlay
from onnxfn.specs.axes import AxisMap, axis_map, pattern
from onnxfn.specs.edits.as_edit import as_edit
from onnxfn.specs.edits.caches import LAYER, NEXT, over_past
from onnxfn.specs.errors import InvalidSpec, UnknownName, unknown
from onnxfn.specs.records import Edit, OutputSpec, Source

Available = Mapping[str, ExportSpec]
"""The name of an extra output -> the spec that adds it."""

TOKENS = ("input_ids", "inputs_embeds")
"""The arguments of `forward` that are tokens, or their embeddings."""

UNNAMED = "batch_size _ _"
"""The axes of hidden states when no tensor of the spec shows which of them are dynamic."""

LAYERS = "num_layers or num_hidden_layers or len(depths)"
ENCODER_LAYERS = either(
    *("encoder_layers", "encoder_num_hidden_layers", "encoder.num_hidden_layers", "text_encoder.num_layers"),
    *("vision_config.num_hidden_layers", "num_layers"),
)
DECODER_LAYERS = "decoder_num_layers"

SINGLE_MODEL_OUTPUTS = ("last_hidden_state", "pooler_output", "hidden_states", "attentions")
ALL_OUTPUTS = (
    *SINGLE_MODEL_OUTPUTS,
    *("encoder_last_hidden_state", "encoder_hidden_states", "encoder_attentions"),
    *("decoder_hidden_states", "decoder_attentions", "cross_attentions"),
)


@as_edit
def with_outputs(spec: ExportSpec, *names: str) -> ExportSpec:
    """The spec with more outputs of its model.

    Args:
        spec: A spec.
        names: `hidden_states` adds one output per layer, `hidden_states.{i}`, where 0 are the embeddings;
            `hidden_states.4` adds one. `attentions` adds the attention weights of each layer; the model then runs with
            eager attention, because only this returns them. An encoder-decoder has `encoder_hidden_states`,
            `decoder_attentions`, `cross_attentions` and the like; each file gets those that it computes.

    Raises:
        UnknownName: the model has no such output. `with_output` adds any other, with its axes.
        InvalidSpec: a layer's number for an output that is not one per layer.

    >>> from onnxfn import bert_inputs, gives
    >>> spec = with_outputs(compose(bert_inputs, gives("logits", "batch_size _")), "pooler_output", "hidden_states")
    >>> [output.name for output in spec.outputs]
    ['logits', 'pooler_output', 'hidden_states.0', 'hidden_states.{next}']
    """
    chosen: ExportSpec = reduce(with_known_output, names, spec)
    return chosen


def with_known_output(spec: ExportSpec, name: str) -> ExportSpec:
    """`with_outputs` of one name. For a spec without a task, each task gets it as an edit."""
    if spec.task is None and spec.tasks:
        if name.partition(".")[0] not in ALL_OUTPUTS:
            raise _unknown_output(name, ALL_OUTPUTS, spec)
        edit = Edit("with_known_output", {"name": name})
        return compose(spec, ExportSpec(tasks=tuple(Overlay(overlay.name, edits=(edit,)) for overlay in spec.tasks)))
    if spec.parts.behaviors:
        return _with_output_in_behaviors(spec, name)
    available = _available(spec, _encoder_axes(spec) or _hidden_state_axes(spec))
    names = [output.name for output in spec.outputs]
    if name not in names and name.partition(".")[0] not in available:
        raise _unknown_output(name, (*available, *(known for known in names if known not in available)), spec)
    return spec if name in names else _with_available(spec, available, name)


def _with_output_in_behaviors(spec: ExportSpec, name: str) -> ExportSpec:
    """The spec with the output in each behavior that computes it. An encoder's outputs have no `encoder_` prefix."""
    behaviors = spec.parts.behaviors
    hidden = (_hidden_state_axes(overlay.spec) for overlay in behaviors if overlay.name == "encoder")
    encoder_axes = next(hidden, axis_map(UNNAMED))
    changed: dict[str, ExportSpec] = {}
    names: dict[str, None] = {}
    for overlay in behaviors:
        available = _available(overlay.spec, _encoder_axes(overlay.spec) or encoder_axes)
        prefix = "encoder_" if overlay.name == "encoder" else ""
        own = [f"{prefix}{output}" for output in available]
        names |= dict.fromkeys(own)
        if name.partition(".")[0] in own:
            changed[overlay.name] = _with_available(overlay.spec, available, name.removeprefix(prefix))
    if not changed:
        raise _unknown_output(name, names, spec)
    edited = tuple(evolve(overlay, spec=changed.get(overlay.name, overlay.spec)) for overlay in behaviors)
    return evolve(spec, parts=evolve(spec.parts, behaviors=edited))


def _unknown_output(name: str, known: Iterable[str], spec: ExportSpec) -> UnknownName:
    problem = unknown("output", name, known, of=spec.name or "this spec")
    return UnknownName(f"{problem}; a model may lack some; another needs its axes: with_output(spec, {name!r}, axes)")


def _with_available(spec: ExportSpec, available: Available, name: str) -> ExportSpec:
    """The spec with an output of all layers or of one; no layer's output is added twice."""
    stem, _, number = name.partition(".")
    addition, per_layer = available[stem], available[stem].outputs[-1]
    if set(addition.outputs) <= set(spec.outputs):
        return compose(spec, addition)
    if not number:
        others = (each for each in spec.outputs if each.layers is not None or not each.name.startswith(f"{stem}."))
        return compose(evolve(spec, outputs=tuple(others)), addition)
    if per_layer.layers is None or not number.isdecimal():
        example = f"{stem}.0" if per_layer.layers else "hidden_states.0"
        raise InvalidSpec(f"{name!r} names no layer's output; such an output is named like {example!r}")
    if per_layer in spec.outputs:
        return spec
    return compose(spec, evolve(addition, outputs=(OutputSpec(name, per_layer.axes, (stem, int(number))),)))


def _available(spec: ExportSpec, encoder: AxisMap) -> Available:
    """The extra outputs of a spec's model. `encoder`: the axes of the hidden states of its encoder, if it has one."""
    inputs = {tensor.name for tensor in spec.inputs}
    target = axis_map(f"{TARGET} _")
    decoder = {
        "decoder_hidden_states": _hidden_states("decoder_hidden_states", target, DECODER_LAYERS),
        "decoder_attentions": _attentions(spec, "decoder_attentions", target, DECODER_LAYERS),
        "cross_attentions": _attentions(spec, "cross_attentions", target, DECODER_LAYERS, over=encoder),
    }
    if any(name.startswith("decoder_") for name in inputs):
        return {
            "encoder_last_hidden_state": gives("encoder_last_hidden_state", encoder),
            "encoder_hidden_states": _hidden_states("encoder_hidden_states", encoder, ENCODER_LAYERS),
            "encoder_attentions": _attentions(spec, "encoder_attentions", encoder, ENCODER_LAYERS),
            **decoder,
        }
    if "encoder_hidden_states" in inputs:
        return decoder
    layers = LAYERS if spec.call.submodule is None else ENCODER_LAYERS
    own = _hidden_state_axes(spec)
    return {
        "last_hidden_state": gives("last_hidden_state", own),
        "pooler_output": gives("pooler_output", f"{_batch_and_length(own)[0]} _"),
        "hidden_states": _hidden_states("hidden_states", own, layers),
        "attentions": _attentions(spec, "attentions", own, layers),
    }


def _hidden_states(name: str, axes: AxisMap, layers: Source) -> ExportSpec:
    """A spec of the input of the first layer (number 0) and the output of each layer."""
    per_layer = OutputSpec(f"{name}.{NEXT}", axes, (name, NEXT), layers=layers)
    first = gives(f"{name}.0", axes, path=(name, 0))
    return compose(first, ExportSpec(outputs=(per_layer,)), always(output_hidden_states=True))


def _attentions(
    spec: ExportSpec, name: str, axes: AxisMap, layers: Source, *, over: AxisMap | None = None
) -> ExportSpec:
    """A spec of the attention weights of each layer: over the model's own tokens, or over the axes of another's."""
    batch, length = _batch_and_length(axes)
    _, keys = _batch_and_length(over or axes)
    weights = OutputSpec(f"{name}.{LAYER}", f"{batch} _ {length} {keys}", (name, LAYER), layers=layers)
    output = over_past(weights) if spec.cache.past in ("inputs", "both") else weights
    return compose(ExportSpec(outputs=(output,), call=Call(attention="eager")), always(output_attentions=True))


def _encoder_axes(spec: ExportSpec) -> AxisMap | None:
    """The axes of the encoder's output that a decoder takes, or None."""
    states = next((tensor.axes for tensor in spec.inputs if tensor.name == "encoder_hidden_states"), None)
    return None if states is None else AxisMap((*states.axes[:-1], *axis_map("_").axes))


def _hidden_state_axes(spec: ExportSpec) -> AxisMap:
    """The axes of hidden states: those of `last_hidden_state`, of the tokens, or of the task feature-extraction."""
    own, *others = (
        next((output.axes for output in inner.outputs if output.name == "last_hidden_state"), None)
        for inner in (spec, *(overlay.spec for overlay in spec.tasks if overlay.name == "feature-extraction"))
    )
    tokens = [tensor.axes.axes for tensor in spec.inputs if tensor.forward_path[-1] in TOKENS][:1]
    words = [pattern(AxisMap(tuple(axis for axis in axes if axis.kind == "dynamic"))).split() for axes in tokens]
    # With choices, each choice is a row of the batch.
    of_tokens = [axis_map(f"{'*'.join(each[:-1])} {each[-1]} _" if len(each) > 1 else UNNAMED) for each in words]
    return next((axes for axes in (own, *of_tokens, *others) if axes is not None), axis_map(UNNAMED))


def _batch_and_length(axes: AxisMap) -> tuple[str, str]:
    """The batch axis and the length axis of hidden states; the length of feature maps is not named."""
    words = pattern(axes).split() or ["batch_size"]
    return words[0], words[1] if len(words) == len(UNNAMED.split()) else "_"

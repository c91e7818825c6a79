"""Choices: what a graph gives besides what its task says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve
from toolz import reduce

from onnxfn.specs.axes import AxisMap, axis_map, pattern
from onnxfn.specs.compose import compose
from onnxfn.specs.edits.caches import LAYER, NEXT, seeing_the_past
from onnxfn.specs.errors import InvalidSpec, UnknownName, unknown
from onnxfn.specs.facts import TARGET, always, gives
from onnxfn.specs.getters import count, either
from onnxfn.specs.records import Edit, ExportSpec, OutputSpec, Overlay, Source

Given = Mapping[str, ExportSpec]
"""What a model can be asked for, and what asks for it."""

UNSAID = "batch_size _ _"
"""The axes of hidden states where nothing says which of them move."""

LAYERS = either("num_layers", "num_hidden_layers", count("depths"))
ENCODER_LAYERS = either(
    *("encoder_layers", "encoder_num_hidden_layers", "encoder.num_hidden_layers", "text_encoder.num_layers"),
    *("vision_config.num_hidden_layers", "num_layers"),
)
DECODER_LAYERS = "decoder_num_layers"

OF_ONE = ("last_hidden_state", "pooler_output", "hidden_states", "attentions")
OF_TWO = (
    *("encoder_last_hidden_state", "encoder_hidden_states", "encoder_attentions"),
    *("decoder_hidden_states", "decoder_attentions", "cross_attentions"),
)


def with_outputs(spec: ExportSpec, *names: str) -> ExportSpec:
    """The spec with more of what its model can give: `with_outputs(spec, "hidden_states", "attentions")`.

    What each layer gives is an output a layer, `hidden_states.{i}` from the embeddings on; `"hidden_states.4"` asks for
    one. Of an encoder-decoder `encoder_hidden_states`, `decoder_attentions`, `cross_attentions` and the like are asked
    for; each file gives what it computes, the encoder's under its own names. Attentions are what eager attention gives:
    the model runs with it. UnknownName for another; `with_output` takes any, with its axes.

    >>> from onnxfn import bert_inputs, text_encoder
    >>> spec = with_outputs(compose(bert_inputs, gives("logits", "batch_size _")), "pooler_output", "hidden_states")
    >>> [one.name for one in spec.outputs]
    ['logits', 'pooler_output', 'hidden_states.0', 'hidden_states.{next}']
    """
    chosen: ExportSpec = reduce(with_known_output, names, spec)
    return chosen


def with_known_output(spec: ExportSpec, name: str) -> ExportSpec:
    """`with_outputs` of one name; where the task is not said yet, it is done when it is."""
    if spec.task is None and spec.tasks:
        if name.partition(".")[0] not in (*OF_ONE, *OF_TWO):
            raise _unknown(name, (*OF_ONE, *OF_TWO), spec)
        edit = Edit("with_known_output", {"name": name})
        return evolve(spec, tasks=tuple(_edited_also(one, edit) for one in spec.tasks))
    if spec.behaviors:
        return _in_behaviors(spec, name)
    known = _known(spec, _encoder_axes(spec) or _hidden(spec))
    there = [one.name for one in spec.outputs]
    if name not in there and name.partition(".")[0] not in known:
        raise _unknown(name, (*known, *(one for one in there if one not in known)), spec)
    return spec if name in there else _asking(spec, known, name)


def _edited_also(overlay: Overlay, edit: Edit) -> Overlay:
    return overlay if edit in overlay.edits else evolve(overlay, edits=(*overlay.edits, edit))


def _in_behaviors(spec: ExportSpec, name: str) -> ExportSpec:
    """Each behavior asked for what it computes; the encoder calls its own by shorter names."""
    encoder = next((_hidden(one.spec) for one in spec.behaviors if one.name == "encoder"), axis_map(UNSAID))
    told: dict[str, ExportSpec] = {}
    every: dict[str, None] = {}
    for one in spec.behaviors:
        known = _known(one.spec, _encoder_axes(one.spec) or encoder)
        own = {f"encoder_{given}": asks for given, asks in known.items()} if one.name == "encoder" else known
        every |= dict.fromkeys(own)
        if name.partition(".")[0] in own:
            called = name.removeprefix("encoder_") if one.name == "encoder" else name
            told[one.name] = _asking(one.spec, known, called)
    if not told:
        raise _unknown(name, every, spec)
    return evolve(spec, behaviors=tuple(evolve(one, spec=told.get(one.name, one.spec)) for one in spec.behaviors))


def _unknown(name: str, known: Any, spec: ExportSpec) -> UnknownName:
    told = unknown("output", name, known, of=spec.name or "this spec")
    return UnknownName(f"{told}; another needs its axes: with_output(spec, {name!r}, axes)")


def _asking(spec: ExportSpec, known: Given, name: str) -> ExportSpec:
    """The spec with an output, of every layer or of one; each layer is given once."""
    stem, _, number = name.partition(".")
    asked, of_layers = known[stem], known[stem].outputs[-1]
    if set(asked.outputs) <= set(spec.outputs):
        return compose(spec, asked)
    if not number:
        alone = tuple(one for one in spec.outputs if not (one.name.startswith(f"{stem}.") and one.layers is None))
        return compose(evolve(spec, outputs=alone), asked)
    if of_layers.layers is None or not number.isdecimal():
        example = f"{stem}.0" if of_layers.layers else "hidden_states.0"
        raise InvalidSpec(f"{name!r} is of no layer; what one layer gives is called like {example!r}")
    if of_layers in spec.outputs:
        return spec
    return compose(spec, evolve(asked, outputs=(OutputSpec(name, of_layers.axes, (stem, int(number))),)))


def _known(spec: ExportSpec, encoder: AxisMap) -> Given:
    """What the model of a spec gives: one that reads, one that writes of what another read, or both at once."""
    taken = {one.name for one in spec.inputs}
    target = axis_map(f"{TARGET} _")
    decoder = {
        "decoder_hidden_states": _hidden_states("decoder_hidden_states", target, DECODER_LAYERS),
        "decoder_attentions": _attentions(spec, "decoder_attentions", target, DECODER_LAYERS),
        "cross_attentions": _attentions(spec, "cross_attentions", target, DECODER_LAYERS, over=encoder),
    }
    if any(name.startswith("decoder_") for name in taken):
        return {
            "encoder_last_hidden_state": gives("encoder_last_hidden_state", encoder),
            "encoder_hidden_states": _hidden_states("encoder_hidden_states", encoder, ENCODER_LAYERS),
            "encoder_attentions": _attentions(spec, "encoder_attentions", encoder, ENCODER_LAYERS),
            **decoder,
        }
    if "encoder_hidden_states" in taken:
        return decoder
    layers = LAYERS if spec.runs is None else ENCODER_LAYERS
    own = _hidden(spec)
    return {
        "last_hidden_state": gives("last_hidden_state", own),
        "pooler_output": gives("pooler_output", f"{_rows_and_length(own)[0]} _"),
        "hidden_states": _hidden_states("hidden_states", own, layers),
        "attentions": _attentions(spec, "attentions", own, layers),
    }


def _hidden_states(name: str, axes: AxisMap, layers: Source) -> ExportSpec:
    """What goes into the first layer, and what comes out of each."""
    of_layers = OutputSpec(f"{name}.{NEXT}", axes, (name, NEXT), layers=layers)
    return compose(
        gives(f"{name}.0", axes, path=(name, 0)),
        ExportSpec(outputs=(of_layers,)),
        always(output_hidden_states=True),
    )


def _attentions(
    spec: ExportSpec, name: str, axes: AxisMap, layers: Source, *, over: AxisMap | None = None
) -> ExportSpec:
    """How much each head of each layer looks from where to where: at all that the model reads, or `over` another's."""
    batch, length = _rows_and_length(axes)
    _, seen = _rows_and_length(over or axes)
    heads = OutputSpec(f"{name}.{LAYER}", f"{batch} _ {length} {seen}", (name, LAYER), layers=layers)
    grown = seeing_the_past(heads) if spec.past in ("inputs", "both") else heads
    return compose(ExportSpec(outputs=(grown,), attention="eager"), always(output_attentions=True))


def _encoder_axes(spec: ExportSpec) -> AxisMap | None:
    """The axes of what a decoder takes of its encoder, if it takes it."""
    states = next((one.axes for one in spec.inputs if one.name == "encoder_hidden_states"), None)
    return None if states is None else AxisMap((*states.axes[:-1], *axis_map("_").axes))


def _hidden(spec: ExportSpec) -> AxisMap:
    """The axes of hidden states: of those that the spec gives, of its tokens, of those that another task gives."""
    features = (overlay.spec for overlay in spec.tasks if overlay.name == "feature-extraction")
    own, *others = (
        next((one.axes for one in given.outputs if one.name == "last_hidden_state"), None)
        for given in (spec, *features)
    )
    tokens = next((one.axes for one in spec.inputs if one.name in ("input_ids", "inputs_embeds")), None)
    found = (own, None if tokens is None else _flat(tokens), *others)
    return next((axes for axes in found if axes is not None), axis_map(UNSAID))


def _flat(tokens: AxisMap) -> AxisMap:
    """The axes of the hidden states of tokens; rows of choices are rows of the batch."""
    words = pattern(AxisMap(tuple(one for one in tokens.axes if one.kind == "dynamic"))).split()
    return axis_map(f"{'*'.join(words[:-1])} {words[-1]} _" if len(words) > 1 else UNSAID)


def _rows_and_length(axes: AxisMap) -> tuple[str, str]:
    """Of hidden states the axes of the batch and of their places; the places of maps are the model's own business."""
    words = pattern(axes).split() or ["batch_size"]
    return words[0], words[1] if len(words) == len(UNSAID.split()) else "_"

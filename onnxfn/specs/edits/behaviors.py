"""Behaviors: an encoder-decoder as a whole, its encoder, its decoder; each is a view of one spec."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from attrs import evolve

from onnxfn.specs.axes import Axis, AxisMap, axis_map
from onnxfn.specs.compose import compose
from onnxfn.specs.dummies import generates, padded, sized
from onnxfn.specs.edits.caches import seeing_the_past
from onnxfn.specs.errors import InvalidSpec, listed, unknown
from onnxfn.specs.facts import TARGET, always, case
from onnxfn.specs.records import Edit, ExportSpec, File, InputSpec, Overlay, State

BEHAVIORS = ("monolith", "encoder", "decoder")
STEMS: Mapping[str, str] = MappingProxyType(
    {"monolith": "model", "encoder": "encoder_model", "decoder": "decoder_model"}
)
"""What Optimum calls the file of each."""

PAST_TARGET = "batch_size past_decoder_sequence_length+decoder_sequence_length"
"""The axes of a mask over what a decoder has written and what is new."""

RESUMED = "decoder_with_past_model"
MERGED = "decoder_model_merged"


def behaves(behavior: str, *specs: ExportSpec) -> ExportSpec:
    """A spec that has one behavior: what it takes and, where it `runs` another callable than the model, gives.

    Where it does, what the whole model takes and gives is not its own.
    """
    if behavior not in BEHAVIORS:
        raise unknown("behavior", behavior, BEHAVIORS)
    return ExportSpec(behaviors=(Overlay(behavior, compose(*specs)),))


def apart(name: str, *specs: ExportSpec) -> ExportSpec:
    """A spec of one more part beside the three behaviors, called as its file: what it takes, `runs` and gives."""
    return ExportSpec(behaviors=(Overlay(name, compose(*specs)),))


def with_behavior(
    spec: ExportSpec, behavior: str, *, use_past: bool = False, use_past_in_inputs: bool = False
) -> ExportSpec:
    """One of the four graphs of an encoder-decoder: monolith, encoder, decoder, decoder that takes a past.

    A past that is taken holds the keys and values of the cross-attention, which are then not given again.
    UnknownName for another behavior; InvalidSpec for a spec that has none, is for no task, or keeps no cache.
    """
    view = _view(spec, behavior)
    if use_past_in_inputs and not use_past:
        raise InvalidSpec("a past that is taken is also given: say use_past=True with use_past_in_inputs=True")
    if not use_past:
        return evolve(view, states=())
    if not use_past_in_inputs:
        return _past(view, "outputs", given=lambda row: behavior == "decoder" or _grows(row))
    return evolve(_past(view, "both", given=_grows), files=(File(RESUMED if behavior == "decoder" else "model"),))


def split(spec: ExportSpec, *parts: str) -> ExportSpec:
    """The spec written as a file for each of these parts of the model, or for each but the whole when none is named.

    UnknownName for a part that it has not; InvalidSpec for a spec that has none, or is for no task.

    >>> from onnxfn import plan, spec_for
    >>> plan(split(spec_for("clip", "feature-extraction")), {"text_config": {"vocab_size": 99, "eos_token_id": 98},
    ...     "vision_config": {"image_size": 32}}).files
    ('vision_model.onnx', 'text_model.onnx')
    """
    chosen = parts or tuple(one.name for one in spec.behaviors if one.name != "monolith")
    if not chosen:
        raise InvalidSpec(f"{spec.name or 'this spec'} is of one part, so there is nothing to split")
    for part in chosen:
        _view(spec, part)
    return compose(evolve(spec, files=()), *(beside(STEMS.get(part, part), part) for part in chosen))


def merged_decoder(spec: ExportSpec) -> ExportSpec:
    """The decoder that serves prompt and continuation: where the cross-attention's past comes empty, it is computed."""
    whole = _past(_view(spec, "decoder"), "both", given=lambda _: True)
    emptied = ExportSpec(states=tuple(_emptied(row) for row in whole.states if not _grows(row)))
    prompt = case("prompt", sized(batch_size=1, past_decoder_sequence_length=0), padded("none"), emptied)
    prompts = case("prompts", sized(batch_size=3, past_decoder_sequence_length=0), padded("right"), emptied)
    lengths = case("prompts", sized(encoder_sequence_length=21, decoder_sequence_length=4))
    return compose(
        evolve(whole, files=(File(MERGED),)),
        prompt,
        case("prompt", sized(encoder_sequence_length=9, decoder_sequence_length=1)),
        prompts,
        lengths,
    )


def cross_attention(spec: ExportSpec) -> ExportSpec:
    """The keys and values of the cross-attention alone, computed from what the encoder gives."""
    return evolve(_past(_view(spec, "decoder"), "outputs", given=lambda row: not _grows(row)), outputs=())


def written_as(*files: File) -> ExportSpec:
    """A spec of the files that a task is written as."""
    return ExportSpec(files=files)


def whole() -> ExportSpec:
    """A spec of one file that holds encoder and decoder."""
    return written_as(_file("model", behavior="monolith"))


def halves() -> ExportSpec:
    """A spec of two files, an encoder and a decoder without past."""
    return written_as(_file("encoder_model", behavior="encoder"), _file("decoder_model", behavior="decoder"))


def halves_with_past() -> ExportSpec:
    """A spec of an encoder and one decoder for prompt and continuation, which stands for two decoders."""
    return compose(beside("encoder_model", "encoder"), decoder_with_past())


def decoder_with_past() -> ExportSpec:
    """A spec of one decoder for prompt and continuation, which stands for two decoders."""
    return written_as(
        _file("decoder_model", behavior="decoder", use_past=True),
        _file(RESUMED, behavior="decoder", use_past=True, use_past_in_inputs=True),
        File(MERGED, (Edit("merged_decoder"),), ("decoder_model", RESUMED), (Edit("cross_attention"),)),
    )


def beside(name: str, behavior: str) -> ExportSpec:
    """A spec of one more file of a task, after those that it has, which is one of the behaviors."""
    return written_as(_file(name, behavior=behavior))


def _file(name: str, **behavior: str | bool) -> File:
    return File(name, (Edit("with_behavior", behavior),))


def _view(spec: ExportSpec, behavior: str) -> ExportSpec:
    known = {one.name: one.spec for one in spec.behaviors}
    if behavior not in (known or BEHAVIORS):
        raise unknown("behavior", behavior, known or BEHAVIORS, of=spec.name or "this spec")
    if not known:
        raise InvalidSpec(
            f"{spec.name or 'this spec'} is no encoder-decoder (or one of its parts already), so it has no behavior "
            f"{behavior!r}; an encoder-decoder has: {listed(BEHAVIORS)}"
        )
    if spec.task is None and spec.tasks:
        raise InvalidSpec(f"say the task of {spec.name or 'this spec'} before its behavior: for_task(spec, task)")
    told = known[behavior]
    own = evolve(spec, behaviors=(), files=(File(STEMS.get(behavior, behavior)),))
    return compose(evolve(own, inputs=(), outputs=()) if told.runs else own, told)


def _past(view: ExportSpec, direction: str, *, given: Callable[[State], bool]) -> ExportSpec:
    if not view.states:
        raise InvalidSpec(f"{view.name or 'this spec'} has no cache here, so no past: use_past=False")
    rows = tuple(row if given(row) else evolve(row, given=None) for row in view.states)
    if direction != "outputs":
        inputs, outputs = map(_over_the_past, view.inputs), map(seeing_the_past, view.outputs)
        view = evolve(view, inputs=tuple(inputs), outputs=tuple(outputs))
    kept = evolve(view, states=rows, past=direction)
    return compose(kept, always(use_cache=True), generates("past_states", "normal"))


def _over_the_past(one: InputSpec) -> InputSpec:
    """A mask over what a decoder writes is one over what is kept, too."""
    masks = one.generator == "padding_mask" and one.axes == axis_map(TARGET)
    return evolve(one, axes=PAST_TARGET) if masks else one


def _grows(row: State) -> bool:
    return row.axes != row.grown


def _emptied(row: State) -> State:
    """The row of a past of length 0, whatever the length of what it is a past of."""
    nothing = Axis("0", "literal")
    moving = (one.kind == "dynamic" and one.symbol != "batch_size" for one in row.axes.axes)
    axes = tuple(nothing if moves else one for one, moves in zip(row.axes.axes, moving, strict=True))
    return evolve(row, axes=AxisMap(axes))

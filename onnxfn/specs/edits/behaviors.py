"""Behaviors: views of one spec. An encoder-decoder has a monolith, an encoder and a decoder; CLIP has two towers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal

from attrs import evolve

from onnxfn.specs.algebra.compose import compose
from onnxfn.specs.algebra.dummies import generates, padded, sized
from onnxfn.specs.algebra.facts import TARGET, always, case
from onnxfn.specs.algebra.spec import Cache, ExportSpec, Overlay, Parts, Past
from onnxfn.specs.axes import axis_map, fix_sizes, names
from onnxfn.specs.edits.as_edit import as_edit
from onnxfn.specs.edits.caches import over_past
from onnxfn.specs.errors import InvalidSpec, listed, refuse_unknown
from onnxfn.specs.records import CacheRow, Edit, File, InputSpec

BEHAVIORS = ("monolith", "encoder", "decoder")
ENCODER, DECODER = "encoder_model", "decoder_model"
DECODER_WITH_PAST, MERGED_DECODER = "decoder_with_past_model", "decoder_model_merged"
STEMS: Mapping[str, str] = MappingProxyType({"monolith": "model", "encoder": ENCODER, "decoder": DECODER})
"""Behavior -> the stem of its file, as Optimum names it."""


def behaves(behavior: str, *specs: ExportSpec) -> ExportSpec:
    """A spec of one behavior of an encoder-decoder.

    Args:
        behavior: `monolith`, `encoder` or `decoder`.
        specs: The inputs of the behavior. If it `runs` a submodule, also the outputs: then it has no input and no
            output of the whole model.

    Raises:
        UnknownName: another behavior.

    >>> from onnxfn.specs.algebra.facts import runs
    >>> [overlay.name for overlay in behaves("encoder", runs("encoder")).parts.behaviors]
    ['encoder']
    """
    refuse_unknown("behavior", behavior, BEHAVIORS)
    return model_part(behavior, *specs)


def model_part(name: str, *specs: ExportSpec) -> ExportSpec:
    """A spec of one part of a model, such as `text_model`: its inputs, its outputs, and the submodule that it runs."""
    return ExportSpec(parts=Parts(behaviors=(Overlay(name, compose(*specs)),)))


@as_edit
def with_behavior(spec: ExportSpec, behavior: str, *, past: Literal["outputs", "both"] | None = None) -> ExportSpec:
    """The spec of one graph of an encoder-decoder, or of one part of a model.

    Args:
        spec: A spec with behaviors, for one task.
        behavior: `monolith`, `encoder`, `decoder`, or the name of a part such as `text_model`.
        past: None for no cache; `outputs` for a graph that returns a cache, as the decoder of the first token does;
            `both` for a graph that also takes one. A graph that takes a cache does not return the part of
            cross-attention: it does not change.

    Raises:
        UnknownName: the spec has no such behavior, or `past` is another word.
        InvalidSpec: the spec has no behaviors, is for no task yet, or has no cache where `past` asks for one.

    >>> from onnxfn import spec_for
    >>> decoder = with_behavior(spec_for("t5", "text2text-generation"), "decoder")
    >>> [tensor.name for tensor in decoder.inputs]
    ['encoder_hidden_states', 'encoder_attention_mask', 'input_ids']
    """
    view = _view(spec, behavior)
    if past is None:
        return evolve(view, cache=evolve(view.cache, rows=()))
    refuse_unknown("past", past, ("outputs", "both"))
    if past == "outputs":
        return _with_cache(view, "outputs", returned=lambda row: behavior == "decoder" or row.grows)
    both = _with_cache(view, "both", returned=lambda row: row.grows)
    return _as_files(both, DECODER_WITH_PAST if behavior == "decoder" else "model")


def part_alone(spec: ExportSpec, *, part: str) -> ExportSpec:
    """The spec of one part of a model, which brings its own inputs, outputs and cache. UnknownName if it has none."""
    return evolve(_view(spec, part), tasks=())


@as_edit
def split(spec: ExportSpec, *names: str) -> ExportSpec:
    """The spec written as one file for each part of the model.

    Args:
        spec: A spec with parts, for one task.
        names: The parts; all but the whole model when left out.

    Raises:
        UnknownName: the spec has no such part.
        InvalidSpec: the spec has no parts, or is for no task yet.

    >>> from onnxfn import plan, spec_for
    >>> plan(split(spec_for("clip", "feature-extraction")), {"text_config": {"vocab_size": 99, "eos_token_id": 98},
    ...     "vision_config": {"image_size": 32}}).files
    ('vision_model.onnx', 'text_model.onnx')
    """
    chosen = names or tuple(overlay.name for overlay in spec.parts.behaviors if overlay.name != "monolith")
    if not chosen:
        raise InvalidSpec(f"{spec.name or 'this spec'} has one part, so it cannot be split")
    for name in chosen:
        _view(spec, name)
    return compose(_as_files(spec), *(extra_file(STEMS.get(name, name), name) for name in chosen))


def merged_decoder(spec: ExportSpec) -> ExportSpec:
    """The spec of one decoder for the first and for later tokens: an empty cross-attention cache is computed inside."""
    whole = _with_cache(_view(spec, "decoder"), "both", returned=lambda _: True)
    empty = ExportSpec(cache=Cache(rows=tuple(_emptied(row) for row in whole.cache.rows if not row.grows)))
    no_past = sized(past_decoder_sequence_length=0)
    return compose(
        _as_files(whole, MERGED_DECODER),
        case("prompt", sized(batch_size=1), no_past, padded("none"), empty),
        case("prompt", sized(encoder_sequence_length=9, decoder_sequence_length=1)),
        case("prompts", sized(batch_size=3), no_past, padded("right"), empty),
        case("prompts", sized(encoder_sequence_length=21, decoder_sequence_length=4)),
    )


def cross_attention(spec: ExportSpec) -> ExportSpec:
    """The spec of a graph that computes the cross-attention's keys and values alone, from the encoder's output."""
    return evolve(_with_cache(_view(spec, "decoder"), "outputs", returned=lambda row: not row.grows), outputs=())


def written_as(*files: File) -> ExportSpec:
    """A spec of the files that a task is written as."""
    return ExportSpec(parts=Parts(files=files))


def encoder_and_decoder() -> ExportSpec:
    """A spec of two files, an encoder and a decoder without a cache."""
    return written_as(_file(ENCODER, behavior="encoder"), _file(DECODER, behavior="decoder"))


def decoder_with_past() -> ExportSpec:
    """A spec of a merged decoder, and of the two decoders that it replaces."""
    return written_as(
        _file(DECODER, behavior="decoder", past="outputs"),
        _file(DECODER_WITH_PAST, behavior="decoder", past="both"),
        File(
            MERGED_DECODER,
            edits=(Edit("merged_decoder"),),
            replaces=(DECODER, DECODER_WITH_PAST),
            filler=(Edit("cross_attention"),),
        ),
    )


def extra_file(name: str, behavior: str) -> ExportSpec:
    """A spec of one more file of a task, after those that it has: one of the behaviors."""
    return written_as(_file(name, behavior=behavior))


def _file(name: str, **arguments: str) -> File:
    return File(name, (Edit("with_behavior", arguments),))


def _as_files(spec: ExportSpec, *names: str) -> ExportSpec:
    """The spec written as files of these stems."""
    return evolve(spec, parts=evolve(spec.parts, files=tuple(map(File, names))))


def _view(spec: ExportSpec, behavior: str) -> ExportSpec:
    """The spec with a behavior composed onto it, and no behaviors left."""
    known = {overlay.name: overlay.spec for overlay in spec.parts.behaviors}
    if not known:
        raise InvalidSpec(
            f"{spec.name or 'this spec'} is not an encoder-decoder (or one of its parts already), so it has no "
            f"behavior {behavior!r}; an encoder-decoder has: {listed(BEHAVIORS)}"
        )
    refuse_unknown("behavior", behavior, known, of=spec.name or "this spec")
    if spec.task is None and spec.tasks:
        raise InvalidSpec(f"choose the task of {spec.name or 'this spec'} before its behavior: for_task(spec, task)")
    overlay = known[behavior]
    own = _as_files(evolve(spec, parts=evolve(spec.parts, behaviors=())), STEMS.get(behavior, behavior))
    if overlay.call.submodule:  # without inputs, outputs, and constants in place of inputs
        constants = tuple(constant for constant in own.call.constants if constant.axes is None)
        own = evolve(own, inputs=(), outputs=(), call=evolve(own.call, constants=constants))
    return compose(own, overlay)


def _with_cache(view: ExportSpec, past: Past, *, returned: Callable[[CacheRow], bool]) -> ExportSpec:
    """The view with its cache on these sides; only rows for which `returned` is true are outputs."""
    if not view.cache.rows:
        raise InvalidSpec(f"{view.name or 'this spec'} has no cache here, so it has no past: leave out past={past!r}")
    rows = tuple(row if returned(row) else evolve(row, output_name=None) for row in view.cache.rows)
    if past != "outputs":
        inputs, outputs = tuple(map(_over_past, view.inputs)), tuple(map(over_past, view.outputs))
        view = evolve(view, inputs=inputs, outputs=outputs)
    cached = evolve(view, cache=Cache(rows=rows, past=past))
    return compose(cached, always(use_cache=True), generates("past_states", "normal"))


def _over_past(tensor: InputSpec) -> InputSpec:
    """The input with a decoder's padding mask extended over the cached tokens; other inputs unchanged."""
    is_mask = tensor.generator == "padding_mask" or str(tensor.forward_path[-1]).endswith("attention_mask")
    over_both = "batch_size past_decoder_sequence_length+decoder_sequence_length"
    return evolve(tensor, axes=over_both) if is_mask and tensor.axes == axis_map(TARGET) else tensor


def _emptied(row: CacheRow) -> CacheRow:
    """The row with every dynamic axis but the batch of length 0."""
    lengths = {*names(row.input_axes)} - {"batch_size"}
    return evolve(row, input_axes=fix_sizes(row.input_axes, dict.fromkeys(lengths, 0)))

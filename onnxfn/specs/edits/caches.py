"""Caches: what a layer keeps between calls, as rows; `with_past` lets a spec take and give it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from attrs import evolve

from onnxfn.specs.axes import AxisMap, axis, names
from onnxfn.specs.compose import compose
from onnxfn.specs.dummies import generates, padded, sized
from onnxfn.specs.errors import InvalidSpec, unknown
from onnxfn.specs.facts import always, case, takes
from onnxfn.specs.records import Build, ExportSpec, Made, OutputSpec, Source, State
from onnxfn.specs.tensor_paths import Path

PAST = "past_sequence_length"
PAST_TOKENS = "batch_size past_sequence_length+sequence_length"
"""The axes of a mask over what is kept and what is new."""

LAYER = "{layer}"
"""What stands for the number of a layer in names and paths."""

NEXT = "{next}"
"""What stands for the number of the layer after one: what goes into a layer is what came out of the one before."""

DIRECTIONS = ("inputs", "outputs", "both")


def keeps(
    name: str,
    axes: str,
    *,
    taken: str,
    given: str,
    grown: str | None = None,
    kept: str | None = None,
    layers: Source = "num_layers",
    argument: str = "past_key_values",
    held: Path = ("layers", LAYER),
) -> ExportSpec:
    """A spec of one row of a cache: `keeps("conv", "batch_size width= kernel=", taken="past_conv.{layer}", ...)`.

    `kept` is the attribute of a layer of the cache that holds the tensor; `grown` its axes when it is given; `argument`
    what `forward` calls the cache; `held` where in the cache a layer is.
    """
    attribute = name if kept is None else kept
    row = State(
        name=name,
        taken=taken,
        given=given,
        axes=axes,
        grown=grown or axes,
        path=(argument, LAYER, attribute or name),
        found=(argument, *held, *(int(step) if step.isdecimal() else step for step in attribute.split(".") if step)),
        layers=layers,
    )
    return ExportSpec(states=(row,), builds=(Build(argument, "dynamic_cache"),))


def kv_cache(
    *,
    heads: str = "num_key_value_heads",
    key: str = "head_dim",
    value: str = "head_dim",
    layers: Source = "num_layers",
    kind: str = "",
) -> ExportSpec:
    """A spec of a cache of keys and values, `[batch_size, heads, past_sequence_length, size]` each, a pair a layer.

    Heads and sizes are names that the normalizer reads: they are numbers in the graph. Where layers differ in them,
    compose one for each `kind` of layer.
    """
    return compose(
        _kept_along("key", f"batch_size {heads}= {{}} {key}=", layers, kind),
        _kept_along("value", f"batch_size {heads}= {{}} {value}=", layers, kind),
    )


def kept_state(
    name: str,
    axes: str,
    *,
    kept: str,
    layers: Source = "num_layers",
    argument: str = "past_key_values",
    held: Path = ("layers", LAYER),
) -> ExportSpec:
    """A spec of a state of recurrent layers, which is replaced and never grows: `past_conv.0`, `present_conv.0`."""
    return keeps(
        name,
        axes,
        taken=f"past_{name}.{{layer}}",
        given=f"present_{name}.{{layer}}",
        kept=kept,
        layers=layers,
        argument=argument,
        held=held,
    )


def with_past(spec: ExportSpec, direction: str = "both") -> ExportSpec:
    """The spec with its cache taken (`inputs`), given (`outputs`), or both: one graph for prompt and next token.

    A past of length 0 is the prompt. InvalidSpec when the spec has no cache, UnknownName for another direction.
    """
    if direction not in DIRECTIONS:
        raise unknown("direction", direction, DIRECTIONS)
    if not spec.states:
        raise InvalidSpec(f"{spec.name or 'this spec'} has no cache, so it has no past; compose one with kv_cache(...)")
    grows = any(PAST in names(row.axes) for row in spec.states)
    taken = ExportSpec() if direction == "outputs" else (_grown if grows else _carried)
    if grows and direction != "outputs":
        spec = evolve(spec, outputs=tuple(map(seeing_the_past, spec.outputs)))
    return compose(spec, always(use_cache=True), ExportSpec(past=direction), taken)


def seeing_the_past(one: OutputSpec) -> OutputSpec:
    """The output of a graph that takes a past: what told of each new token by each tells of it by what is kept, too.

    A length that is a sum or a product of others is of no tokens that a past has a name for: it stays.

    >>> str(seeing_the_past(OutputSpec("attentions.0", "batch_size _ sequence_length sequence_length")).axes)
    '[batch_size, _, sequence_length, past_sequence_length + sequence_length]'
    """
    *rest, last = one.axes.axes
    if last.kind != "dynamic" or not last.symbol.isidentifier() or not rest or rest[-1] != last:
        return one
    return evolve(one, axes=AxisMap((*rest, axis(f"past_{last.symbol}+{last.symbol}"))))


_grown = compose(
    takes("attention_mask", PAST_TOKENS, "padding_mask"),
    generates("token_positions", "positions", mask=Made("padding_mask", PAST_TOKENS)),
    generates("past_states", "normal"),
    sized(past_sequence_length=16),
    case("prompt", sized(batch_size=1, past_sequence_length=0, sequence_length=7), padded("none")),
    case("left-padded prompts", sized(batch_size=3, past_sequence_length=0, sequence_length=24), padded("left")),
    case("next token", sized(batch_size=3, past_sequence_length=9, sequence_length=1), padded("left")),
    case("next tokens", sized(batch_size=1, past_sequence_length=21, sequence_length=3), padded("none")),
)

# A state that does not grow says nothing of how long the text was: the mask is over what is new.
_carried = compose(
    generates("past_states", "normal"),
    case("next token", sized(batch_size=3, sequence_length=1), padded("none")),
    case("next tokens", sized(batch_size=1, sequence_length=3), padded("none")),
)


def with_single_steps(spec: ExportSpec) -> ExportSpec:
    """The spec, for a PyTorch that goes on from a state by single tokens alone: what is checked."""
    return compose(spec, _singly)


_prompt = sized(past_sequence_length=0)
_singly = compose(
    generates("past_states", "constant"),
    case("one", _prompt),
    case("right-padded", _prompt),
    case("left-padded", _prompt),
    case("next token", generates("past_states", "normal")),
    case("next tokens", sized(sequence_length=1), generates("past_states", "normal")),
)


def _kept_along(name: str, axes: str, layers: Source, kind: str) -> ExportSpec:
    return keeps(
        f"{kind} {name}".strip(),
        axes.format("past_sequence_length"),
        grown=axes.format("past_sequence_length+sequence_length"),
        taken=f"past_key_values.{{layer}}.{name}",
        given=f"present.{{layer}}.{name}",
        kept=f"{name}s",
        layers=layers,
    )


def cross_cache(
    *,
    heads: str,
    key: str,
    value: str,
    layers: Source = "decoder_num_layers",
    after: str = "input_ids",
    batch: str = "batch_size",
    grown: str = "past_decoder_sequence_length+decoder_sequence_length",
) -> ExportSpec:
    """A spec of a cache of four entries a layer: keys and values of the decoder's own attention, and of the encoder's.

    Heads and sizes are names that the normalizer reads: they are numbers in the graph. `batch` is the first axis, and
    `grown` how long what the decoder keeps of itself is after a call.
    """
    own, cross = "past_decoder_sequence_length", "encoder_sequence_length"
    rows = (
        (f"{side}.{kind}", side, kind, f"{batch} {heads}= {{}} {size}=", *lengths)
        for side, *lengths in (("decoder", own, grown), ("encoder", cross, cross))
        for kind, size in (("key", key), ("value", value))
    )
    return ExportSpec(
        states=tuple(_row(*row, layers=layers, after=after) for row in rows),
        builds=(Build("past_key_values", "encoder_decoder_cache"),),
    )


def own_cache(
    *, heads: str, key: str, value: str, layers: Source = "decoder_num_layers", after: str = "input_ids"
) -> ExportSpec:
    """A spec of a cache of two entries a layer, for a decoder that computes what it reads of the encoder each time."""
    every = cross_cache(heads=heads, key=key, value=value, layers=layers, after=after)
    rows = (row for row in every.states if row.name.startswith("decoder."))
    return evolve(every, states=tuple(_shortened(row) for row in rows))


def _shortened(row: State) -> State:
    """The row under the name that it has in a decoder of its own."""
    kind = row.name.removeprefix("decoder.")
    return evolve(row, name=kind, taken=f"past_key_values.{{layer}}.{kind}", given=f"present.{{layer}}.{kind}")


CACHES: Mapping[str, str] = MappingProxyType({"decoder": "self_attention_cache", "encoder": "cross_attention_cache"})
"""Whose keys and values, in the names of ONNX -> the part of transformers' EncoderDecoderCache that holds them."""


def _row(name: str, side: str, kind: str, axes: str, taken: str, given: str, *, layers: Source, after: str) -> State:
    return State(
        name=name,
        taken=f"past_key_values.{{layer}}.{name}",
        given=f"present.{{layer}}.{name}",
        axes=axes.format(taken),
        grown=axes.format(given),
        path=("past_key_values", CACHES[side], "{layer}", f"{kind}s"),
        found=("past_key_values", CACHES[side], "layers", "{layer}", f"{kind}s"),
        layers=layers,
        after=after,
    )

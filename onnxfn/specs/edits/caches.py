"""Caches: rows of a cache as facts, and `with_past`, which turns them into inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

from attrs import evolve

from onnxfn.specs.algebra.compose import EMPTY, compose
from onnxfn.specs.algebra.dummies import generates, padded, sized
from onnxfn.specs.algebra.facts import always, builds, case
from onnxfn.specs.algebra.spec import Cache, ExportSpec, Past
from onnxfn.specs.axes import AxisMap, axis, axis_map, names
from onnxfn.specs.converters import Path
from onnxfn.specs.edits.as_edit import as_edit
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.records import CacheRow, Constant, InputSpec, NestedDummy, OutputSpec, Source

PAST = "past_sequence_length"
SHARED_OPSET, SCATTER_OPSET = 23, 24
"""The first opsets for caches in buffers: 23 has Attention; 24 has TensorScatter, and Attention reads lengths."""

PAST_TOKENS = "batch_size past_sequence_length+sequence_length"
"""The axes of an attention mask over cached and new tokens."""

LAYER = "{layer}"
"""The placeholder for the number of a layer, in names and paths."""

NEXT = "{next}"
"""The placeholder for the number of the next layer: hidden state `{next}` is the output of layer `{layer}`."""

Tensor = TypeVar("Tensor", InputSpec, Constant)

CACHES: Mapping[str, str] = MappingProxyType({"decoder": "self_attention_cache", "encoder": "cross_attention_cache"})
"""The side in an ONNX name -> the attribute of transformers' EncoderDecoderCache."""


def cache_row(
    name: str,
    axes: str,
    *,
    input_name: str | None = None,
    output_name: str | None = None,
    output_axes: str | None = None,
    attribute: str | None = None,
    layers: Source = "num_layers",
    argument: str = "past_key_values",
    container: Path = ("layers", LAYER),
) -> ExportSpec:
    """A spec of one kind of tensor in a cache, one per layer.

    Args:
        name: The name of the row.
        axes: The axes of the input.
        input_name: The name of the input, with `{layer}` for the layer's number; `past_{name}.{layer}` when left out.
        output_name: The name of the output, with `{layer}`; `present_{name}.{layer}` when left out.
        output_axes: The axes of the output; those of the input when left out.
        attribute: The attribute of a cache layer that holds the tensor, such as `conv_states.0`; `name` when left out.
        layers: How many layers have such a tensor, or which: where the configuration says so.
        argument: The argument of `forward` that is the cache.
        container: The path inside the cache to one layer.

    >>> row = cache_row("conv", "batch_size width= kernel=", attribute="conv_states.0").cache.rows[0]
    >>> row.input_name, row.output_name, row.output_path
    ('past_conv.{layer}', 'present_conv.{layer}', ('past_key_values', 'layers', '{layer}', 'conv_states', 0))
    """
    attribute = name if attribute is None else attribute
    steps = tuple(int(step) if step.isdecimal() else step for step in attribute.split(".") if step)
    row = CacheRow(
        name=name,
        input_name=input_name or f"past_{name}.{LAYER}",
        output_name=output_name or f"present_{name}.{LAYER}",
        input_axes=axes,
        output_axes=output_axes or axes,
        input_path=(argument, LAYER, attribute or name),
        output_path=(argument, *container, *steps),
        layers=layers,
    )
    return compose(ExportSpec(cache=Cache(rows=(row,))), builds(argument, "dynamic_cache"))


def kv_cache(
    *,
    heads: str = "num_key_value_heads",
    key: str = "head_dim",
    value: str = "head_dim",
    layers: Source = "num_layers",
    kind: str = "",
) -> ExportSpec:
    """A spec of a KV cache: keys and values, `[batch_size, heads, past_sequence_length, size]` each, a pair per layer.

    Args:
        heads: The name under which the normalizer reads the number of heads. It is a number in the graph.
        key: The name under which it reads the size of a key.
        value: The name under which it reads the size of a value.
        layers: How many layers have a KV cache, or which.
        kind: The kind of layers, where layers differ in heads or sizes: compose one `kv_cache` per kind.

    >>> [row.input_name for row in kv_cache().cache.rows]
    ['past_key_values.{layer}.key', 'past_key_values.{layer}.value']
    """
    rows = (
        cache_row(
            f"{kind} {name}".strip(),
            f"batch_size {heads}= {PAST} {size}=",
            output_axes=f"batch_size {heads}= {PAST}+sequence_length {size}=",
            input_name=f"past_key_values.{LAYER}.{name}",
            output_name=f"present.{LAYER}.{name}",
            attribute=f"{name}s",
            layers=layers,
        )
        for name, size in (("key", key), ("value", value))
    )
    return compose(*rows)


def cross_cache(
    *,
    heads: str,
    key: str,
    value: str,
    layers: Source = "decoder_num_layers",
    after: str = "input_ids",
    batch: str = "batch_size",
    output_length: str = "past_decoder_sequence_length+decoder_sequence_length",
) -> ExportSpec:
    """A spec of the cache of an encoder-decoder: keys and values of self-attention and of cross-attention.

    Args:
        heads: The name under which the normalizer reads the number of heads. It is a number in the graph.
        key: The name under which it reads the size of a key.
        value: The name under which it reads the size of a value.
        layers: How many layers the decoder has.
        after: The input after which the cache is placed.
        batch: The first axis.
        output_length: The length of the decoder's own keys and values after a call.

    >>> [row.name for row in cross_cache(heads="num_heads", key="head_dim", value="head_dim").cache.rows]
    ['decoder.key', 'decoder.value', 'encoder.key', 'encoder.value']
    """
    own, cross = "past_decoder_sequence_length", "encoder_sequence_length"
    rows = (
        CacheRow(
            name=f"{side}.{kind}",
            input_name=f"past_key_values.{LAYER}.{side}.{kind}",
            output_name=f"present.{LAYER}.{side}.{kind}",
            input_axes=f"{batch} {heads}= {past} {size}=",
            output_axes=f"{batch} {heads}= {present} {size}=",
            input_path=("past_key_values", CACHES[side], LAYER, f"{kind}s"),
            output_path=("past_key_values", CACHES[side], "layers", LAYER, f"{kind}s"),
            layers=layers,
            after=after,
        )
        for side, past, present in (("decoder", own, output_length), ("encoder", cross, cross))
        for kind, size in (("key", key), ("value", value))
    )
    return compose(ExportSpec(cache=Cache(rows=rows)), builds("past_key_values", "encoder_decoder_cache"))


def self_cache(
    *, heads: str, key: str, value: str, layers: Source = "decoder_num_layers", after: str = "input_ids"
) -> ExportSpec:
    """A spec of a cache of self-attention alone, for a decoder that computes its cross-attention anew in each call."""
    both = cross_cache(heads=heads, key=key, value=value, layers=layers, after=after)
    rows = (
        evolve(row, name=kind, input_name=f"past_key_values.{LAYER}.{kind}", output_name=f"present.{LAYER}.{kind}")
        for row in both.cache.rows
        for side, _, kind in [row.name.partition(".")]
        if side == "decoder"
    )
    return evolve(both, cache=Cache(rows=tuple(rows)))


@as_edit
def with_past(spec: ExportSpec, direction: Past = "both") -> ExportSpec:
    """The spec with its cache as inputs, outputs, or both: one graph for the prompt and for each next token.

    With a past of length 0 it reads the prompt.

    Args:
        spec: A spec that has a cache.
        direction: `inputs`, `outputs` or `both`.

    Raises:
        InvalidSpec: the spec has no cache.
        UnknownName: another direction.

    >>> from onnxfn import spec_for
    >>> config = {"num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 8, "vocab_size": 9}
    >>> from onnxfn import plan
    >>> list(plan(with_past(spec_for("llama", "text-generation"), "outputs"), config).parts[0].outputs)
    ['logits', 'present.0.key', 'present.0.value']
    """
    if not spec.cache.rows:
        raise InvalidSpec(f"{spec.name or 'this spec'} has no cache, so it has no past; compose one with kv_cache(...)")
    grows = any(PAST in names(row.input_axes) for row in spec.cache.rows)
    additions = EMPTY if direction == "outputs" else (_KV_PAST if grows else _STATE_PAST)
    if grows and direction != "outputs":
        inputs = tuple(map(_mask_over_past, spec.inputs))
        call = evolve(spec.call, constants=tuple(map(_mask_over_past, spec.call.constants)))
        spec = evolve(spec, inputs=inputs, outputs=tuple(map(over_past, spec.outputs)), call=call)
    return compose(spec, always(use_cache=True), ExportSpec(cache=Cache(past=direction)), additions)


def over_past(output: OutputSpec) -> OutputSpec:
    """The output of a graph that takes a past: a trailing pair of axes `n n`, as of attention, becomes `n past_n+n`.

    >>> str(over_past(OutputSpec("attentions.0", "batch_size _ sequence_length sequence_length")).axes)
    '[batch_size, _, sequence_length, past_sequence_length + sequence_length]'
    """
    *rest, last = output.axes.axes
    if last.kind != "dynamic" or not last.symbol.isidentifier() or not rest or rest[-1] != last:
        return output
    return evolve(output, axes=AxisMap((*rest, axis(f"past_{last.symbol}+{last.symbol}"))))


def _mask_over_past(tensor: Tensor) -> Tensor:
    """The attention mask over cached and new tokens, an input or a constant tensor; any other one unchanged."""
    path = tensor.forward_path if isinstance(tensor, InputSpec) else tensor.path
    is_mask = path == ("attention_mask",) and tensor.axes is not None
    return evolve(tensor, axes=axis_map(PAST_TOKENS)) if is_mask else tensor


def with_single_steps(spec: ExportSpec) -> ExportSpec:
    """The spec with a check for models that take several tokens only with an empty state, and then one at a time."""
    return compose(
        spec,
        generates("past_states", "constant"),
        *(case(name, sized(past_sequence_length=0)) for name in ("one", "right-padded", "left-padded")),
        case("next token", generates("past_states", "normal")),
        case("next tokens", sized(sequence_length=1), generates("past_states", "normal")),
    )


_KV_PAST = compose(
    generates("token_positions", "positions", mask=NestedDummy("padding_mask", PAST_TOKENS)),
    generates("past_states", "normal"),
    sized(past_sequence_length=16),
    case("prompt", sized(batch_size=1, past_sequence_length=0, sequence_length=7), padded("none")),
    case("left-padded prompts", sized(batch_size=3, past_sequence_length=0, sequence_length=24), padded("left")),
    case("next token", sized(batch_size=3, past_sequence_length=9, sequence_length=1), padded("left")),
    case("next tokens", sized(batch_size=1, past_sequence_length=21, sequence_length=3), padded("none")),
)
"""The facts that `with_past` adds to a decoder with a KV cache."""

# A recurrent state has no length, so the mask covers only the new tokens.
_STATE_PAST = compose(
    generates("past_states", "normal"),
    case("next token", sized(batch_size=3, sequence_length=1), padded("none")),
    case("next tokens", sized(batch_size=1, sequence_length=3), padded("none")),
)
"""The facts that `with_past` adds to a decoder with a cache of constant size."""

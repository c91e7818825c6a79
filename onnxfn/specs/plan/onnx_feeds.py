"""From the nested arguments and results of `forward` to the flat names of ONNX."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from onnxfn.specs.algebra.planned import AnySpec
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.converters import at
from onnxfn.specs.edits.caches import CACHES

CACHE_INPUT = "past_key_values"
CACHE_OUTPUT = "present"
SELF_ATTENTION = ("key", "value")
SELF_AND_CROSS_ATTENTION = ("decoder.key", "decoder.value", "encoder.key", "encoder.value")


def flatten_outputs(name: str, value: Any) -> dict[str, Any]:
    """One result of `forward`, by the names of its tensors in ONNX.

    Args:
        name: The name of the result: `logits`, `hidden_states`, or `present` or `past_key_values` for a cache.
        value: A tensor, a tuple of tensors, or a cache: one of transformers, or a tuple with two tensors for each layer
            (key, value), or with four (those of the self-attention, then those of the cross-attention).

    Returns:
        `{name in ONNX: tensor}`.

    >>> flatten_outputs("present", ((1, 2), (3, 4)))
    {'present.0.key': 1, 'present.0.value': 2, 'present.1.key': 3, 'present.1.value': 4}
    >>> flatten_outputs("hidden_states", (1, 2)), flatten_outputs("logits", 1)
    ({'hidden_states.0': 1, 'hidden_states.1': 2}, {'logits': 1})
    """
    if name in (CACHE_INPUT, CACHE_OUTPUT) and value is not None:
        return {
            f"{name}.{layer}.{kind}": tensor
            for layer, tensors in enumerate(_layer_tensors(value))
            for kind, tensor in zip(_kinds(tensors), tensors, strict=True)
        }
    if isinstance(value, (tuple, list)):
        return {f"{name}.{index}": tensor for index, tensor in enumerate(value)}
    return {name: value}


def ort_inputs(spec: AnySpec, reference_inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of an ONNX file that correspond to arguments of `forward`.

    Args:
        spec: The planned spec of a part, or a spec before planning.
        reference_inputs: Arguments of `forward`. `past_key_values` is a cache as in `flatten_outputs`;
            `encoder_outputs` is an encoder's output, or a tuple that starts with its last hidden state.

    Returns:
        `{input name: tensor}`.

    Raises:
        UnknownName: An input of the spec is not among the arguments.

    >>> from onnxfn.specs.algebra.facts import takes
    >>> ort_inputs(takes("ids", "sequence_length", "token_ids", path=("input_ids",)), {"input_ids": [1, 5, 9]})
    {'ids': [1, 5, 9]}
    """
    arguments = {
        name: _encoder_output(value) if name == "encoder_outputs" else value for name, value in reference_inputs.items()
    }
    cache = arguments.get(CACHE_INPUT)
    past = {} if cache is None else flatten_outputs(CACHE_INPUT, cache)
    tensors = {input_.name: at(input_.forward_path, arguments) for input_ in spec.inputs if input_.name not in past}
    has_unplanned_cache = isinstance(spec, ExportSpec) and spec.cache.rows
    wanted = past if has_unplanned_cache else {input_.name for input_ in spec.inputs}
    return {**tensors, **{name: tensor for name, tensor in past.items() if name in wanted}}


def _encoder_output(value: Any) -> Any:
    return {"last_hidden_state": value[0]} if isinstance(value, (tuple, list)) else value


def _kinds(tensors: Sequence[Any]) -> tuple[str, ...]:
    return SELF_ATTENTION if len(tensors) == len(SELF_ATTENTION) else SELF_AND_CROSS_ATTENTION


def _layer_tensors(cache: Any) -> Sequence[Sequence[Any]]:
    """The tensors of each layer of a cache: a tuple of layers, or a cache of transformers."""
    return cache if isinstance(cache, (tuple, list)) else tuple(_transformers_layers(cache))


def _transformers_layers(cache: Any) -> Iterator[tuple[Any, ...]]:
    """The keys and values of each layer of a DynamicCache, or of both sides of an EncoderDecoderCache."""
    sides = [getattr(cache, side) for side in CACHES.values() if hasattr(cache, side)] or [cache]
    for layers in zip(*(side.layers for side in sides), strict=True):
        yield tuple(tensor for layer in layers for tensor in (layer.keys, layer.values))

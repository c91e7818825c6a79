"""Between the nested arguments and results of `forward` and the flat names of ONNX, for those who hold the former."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from onnxfn.specs.edits.caches import CACHES
from onnxfn.specs.planned import AnySpec
from onnxfn.specs.spec import ExportSpec
from onnxfn.specs.tensor_paths import at

PAST = "past_key_values"
CACHE_NAMES = ("present", PAST)
TWO = ("key", "value")
FOUR = ("decoder.key", "decoder.value", "encoder.key", "encoder.value")


def flatten_outputs(name: str, value: Any) -> dict[str, Any]:
    """One result of `forward` by the names of its tensors in ONNX.

    A layer of a cache has two entries, or four where it also looks at an encoder; another nest is numbered.

    >>> flatten_outputs("present", ((1, 2), (3, 4)))
    {'present.0.key': 1, 'present.0.value': 2, 'present.1.key': 3, 'present.1.value': 4}
    >>> flatten_outputs("hidden_states", (1, 2)), flatten_outputs("logits", 1)
    ({'hidden_states.0': 1, 'hidden_states.1': 2}, {'logits': 1})
    """
    if name in CACHE_NAMES and value is not None:
        return {
            f"{name}.{layer}.{entry}": one
            for layer, entries in enumerate(_layers(value))
            for entry, one in zip(TWO if len(entries) == len(TWO) else FOUR, entries, strict=True)
        }
    if isinstance(value, (tuple, list)):
        return {f"{name}.{index}": one for index, one in enumerate(value)}
    return {name: value}


def ort_inputs(spec: AnySpec, reference_inputs: Mapping[str, Any]) -> dict[str, Any]:
    """What ONNX Runtime is fed, by the names of ONNX, where `forward` is fed these arguments.

    `spec` is that of a part of a plan, or one that is to be planned. A cache is one of transformers, or a tuple of
    layers of two or four entries; what an encoder gave is its output, or a tuple that starts with its states.
    UnknownName when an input is not there.
    """
    told = {name: _output(value) if name == "encoder_outputs" else value for name, value in reference_inputs.items()}
    past = flatten_outputs(PAST, told[PAST]) if told.get(PAST) is not None else {}
    named = {one.name: at(one.place, told) for one in spec.inputs if one.name not in past}
    wanted = past if isinstance(spec, ExportSpec) and spec.cache.rows else {one.name for one in spec.inputs}
    return {**named, **{name: tensor for name, tensor in past.items() if name in wanted}}


def _output(value: Any) -> Any:
    return {"last_hidden_state": value[0]} if isinstance(value, (tuple, list)) else value


def _layers(cache: Any) -> Sequence[Sequence[Any]]:
    """The entries of each layer of a cache, whatever holds them."""
    return cache if isinstance(cache, (tuple, list)) else tuple(_entries(cache))


def _entries(cache: Any) -> Iterator[tuple[Any, ...]]:
    sides = [getattr(cache, side) for side in CACHES.values() if hasattr(cache, side)] or [cache]
    for layers in zip(*(side.layers for side in sides), strict=True):
        yield tuple(tensor for layer in layers for tensor in (layer.keys, layer.values))

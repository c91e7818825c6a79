"""The spec of a text model with a cache, from the cache that a run of the model returns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from attrs import evolve

from onnxfn.architectures.families.seq2seq import image_seq2seq, text_seq2seq
from onnxfn.architectures.families.text import positions, text_decoder
from onnxfn.architectures.private.renamed import field
from onnxfn.export.derive.candidate_inputs import forward_parameters
from onnxfn.export.derive.known_inputs import CONFIG_KEYS
from onnxfn.models.forward import calls_with_others
from onnxfn.specs.algebra.compose import compose, constant, reads
from onnxfn.specs.algebra.facts import TOKENS, builds
from onnxfn.specs.algebra.spec import Call, ExportSpec
from onnxfn.specs.axes import pattern
from onnxfn.specs.edits.behaviors import behaves
from onnxfn.specs.edits.caches import CACHES, cache_row
from onnxfn.specs.edits.tensors import without
from onnxfn.specs.records import CacheRow

SEES = "image-text-to-text"

SEQ2SEQ_INPUTS = ("input_ids", "attention_mask", "decoder_input_ids")
"""The inputs of an encoder-decoder whose spec may be derived with a cache."""

DECODER_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})
"""The possible inputs of a decoder whose spec is derived with a cache; `input_ids` is required."""

STATE_NAMES: Mapping[str, str] = MappingProxyType({"conv_states": "conv", "recurrent_states": "recurrent"})
"""Attribute of a layer of a cache, whose tensors have a fixed size -> the name of the state in ONNX."""

INDEXER_KEYS = "indexer_keys"
"""Attribute of a cache layer with the keys of an index: attention reads only the keys that the index selects."""


def spec_with_cache(model: Any, base: ExportSpec, result: Any, task: str) -> ExportSpec | None:
    """The spec of a text model with the cache in its result; None if there is no cache of transformers."""
    cache = field(result, "past_key_values")
    inputs = tuple(input_.name for input_ in base.inputs)
    if hasattr(cache, CACHES["encoder"]):
        if task == SEES and "input_ids" not in inputs:
            return _image_seq2seq_spec(base, result, cache)
        return _seq2seq_spec(base, result, cache) if inputs == SEQ2SEQ_INPUTS else None
    states = cache_spec(cache).cache.rows
    is_decoder = states and _reads_text(base) and DECODER_INPUTS.issuperset(inputs)
    return _decoder_spec(model, base, states) if is_decoder else None


def _reads_text(base: ExportSpec) -> bool:
    """Whether the token ids have the axes of a text, not those of the codes of a sound."""
    return any(input_.name == "input_ids" and pattern(input_.axes) == TOKENS for input_ in base.inputs)


def _decoder_spec(model: Any, base: ExportSpec, states: Iterable[CacheRow]) -> ExportSpec:
    parameters = forward_parameters(model)
    position_ids = positions if "position_ids" in parameters else ExportSpec()
    name = ExportSpec(name=base.name, call=Call(attention=base.call.attention))
    family = compose(text_decoder, CONFIG_KEYS, position_ids, name)
    may_read_mask = "attention_mask" in parameters or calls_with_others(model)
    family = family if may_read_mask else without(family, "attention_mask")
    return evolve(family, cache=evolve(family.cache, rows=states))


def _image_seq2seq_spec(base: ExportSpec, result: Any, cache: Any) -> ExportSpec:
    """The spec of an encoder of images with a decoder of text."""
    read = tuple(input_ for input_ in base.inputs if input_.name != "decoder_input_ids")
    return compose(evolve(base, inputs=()), image_seq2seq(ExportSpec(inputs=read)), _cache_sizes(result, cache))


def _cache_sizes(result: Any, cache: Any) -> ExportSpec:
    """A spec of the sizes in the cache of an encoder-decoder."""
    layers = getattr(cache, CACHES["decoder"]).layers
    _, heads, _, head_size = layers[0].keys.shape
    return reads(
        hidden_size=constant(result.encoder_last_hidden_state.shape[-1]),
        decoder_num_layers=constant(len(layers)),
        decoder_num_attention_heads=constant(heads),
        decoder_head_dim=constant(head_size),
    )


def _seq2seq_spec(base: ExportSpec, result: Any, cache: Any) -> ExportSpec:
    with_experts = hasattr(result, "encoder_router_logits")
    encoder = behaves("decoder", builds("encoder_outputs", "moe_encoder_output")) if with_experts else ExportSpec()
    name = ExportSpec(name=base.name, call=Call(attention=base.call.attention))
    return compose(text_seq2seq, CONFIG_KEYS, _cache_sizes(result, cache), encoder, name)


def cache_spec(cache: Any) -> ExportSpec:
    """A spec of the states in a cache of transformers after a run; empty if the cache has no layers.

    Layers whose state has the same name and axes share a row. Further rows of the same name have a number as prefix.
    """
    rows: dict[tuple[str, str], list[int]] = {}
    for index, layer in enumerate(getattr(cache, "layers", ())):
        for state in _layer_states(layer):
            rows.setdefault(state, []).append(index)
    names = [name for name, _ in rows]
    return compose(
        *(
            _state_spec(name, axes, layers, "" if names.index(name) == number else str(number))
            for number, ((name, axes), layers) in enumerate(rows.items())
        )
    )


def _layer_states(layer: Any) -> Iterator[tuple[str, str]]:
    """The name and the axes of each state of a layer of a cache; `{}` stands for the axis that grows."""
    for name in ("keys", "values"):
        tensor = getattr(layer, name, None)
        if tensor is not None and tensor.ndim == 4:  # noqa: PLR2004 - [batch, heads, length, head size]
            yield name.removesuffix("s"), f"batch_size {tensor.shape[1]} {{}} {tensor.shape[3]}"
    indexed = getattr(layer, INDEXER_KEYS, None)
    if indexed is not None:
        yield INDEXER_KEYS.removesuffix("s"), f"batch_size {{}} {indexed.shape[2]}"
    for name in STATE_NAMES:
        for index, tensor in dict(getattr(layer, name, None) or {}).items():
            if tensor is not None:
                yield f"{name}.{index}", " ".join(("batch_size", *map(str, tensor.shape[1:])))


def _state_spec(name: str, axes: str, layers: Sequence[int], prefix: str) -> ExportSpec:
    attribute, _, index = name.partition(".")
    state = f"{STATE_NAMES[attribute]}{'' if index == '0' else index}" if index else ""
    return cache_row(
        f"{prefix} {state or name}".strip(),
        axes.format("past_sequence_length"),
        output_axes=axes.format("past_sequence_length+sequence_length"),
        input_name=f"past_{state}.{{layer}}" if state else f"past_key_values.{{layer}}.{name}",
        output_name=f"present_{state}.{{layer}}" if state else f"present.{{layer}}.{name}",
        attribute=name if state else f"{name}s",
        layers=constant(tuple(layers)),
    )

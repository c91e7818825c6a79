"""The inputs that a model may accept, in the order of the attempts, and the spec of its cache after a run on them."""

import inspect
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product as combinations
from types import MappingProxyType
from typing import Any

from attrs import evolve

from onnxfn.architectures.families.seq2seq import decoder_ids, encoder_inputs, image_seq2seq, seq2seq, text_seq2seq
from onnxfn.architectures.families.text import positions, text_decoder, text_dummies, text_reads
from onnxfn.architectures.private.renamed import field, spec_name
from onnxfn.export.derive.known_inputs import CONFIG_KEYS, INPUT_FORMS, JOINED_FORMS, REQUIRED_FORMS
from onnxfn.models.forward import calls_with_others
from onnxfn.specs.algebra.compose import compose, constant, reads
from onnxfn.specs.algebra.config_values import config_of
from onnxfn.specs.algebra.facts import TOKENS, always, builds
from onnxfn.specs.algebra.spec import Call, ExportSpec
from onnxfn.specs.axes import pattern
from onnxfn.specs.edits.behaviors import behaves
from onnxfn.specs.edits.caches import CACHES, cache_row
from onnxfn.specs.edits.tensors import without
from onnxfn.specs.results.output_types import MAIN_INPUTS, MODALITY_OF

COMMON_SPEC = compose(text_dummies, text_reads, CONFIG_KEYS)


def forward_parameters(model: Any) -> Mapping[str, inspect.Parameter]:
    """The named parameters of `forward`, then those of the layers that get its `**kwargs` if it reads texts."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(model.forward).parameters.items()
    own = {spec_name(name): parameter for name, parameter in parameters if parameter.kind in named}
    handed_on = _handed_on(model) if "input_ids" in own else ()
    return {**own, **{name: each for name, each in handed_on if name not in own}}


def _handed_on(model: Any) -> Iterator[tuple[str, inspect.Parameter]]:
    """The optional parameters of the layers that get the `**kwargs` of `forward`, except those that `forward` sets."""
    for function, passed in calls_with_others(model):
        layer = _layer(model, function)
        for name, parameter in {} if layer is None else forward_parameters(layer).items():
            if not _is_required(parameter) and name not in {spec_name(each or "") for each in passed}:
                yield name, parameter


def _layer(model: Any, function: str) -> Any:
    """The layer that an expression such as `self.decoder` names in the `forward` of a model; None if it names none."""
    with suppress(AttributeError):
        return model.get_submodule(function.removeprefix("self.")) if function.startswith("self.") else None
    return None


def candidate_inputs(model: Any, *, of_texts: bool = False) -> Iterator[ExportSpec]:
    """Inputs that the model may accept: those of JOINED_FORMS, unless `of_texts`, then each group in all its forms."""
    parameters = forward_parameters(model)
    required = {name for name, parameter in parameters.items() if _is_required(parameter)}
    known = {name: forms for name, forms in INPUT_FORMS.items() if name in parameters}
    known |= {name: forms for name, forms in REQUIRED_FORMS.items() if name in required}
    for names, joined in () if of_texts else JOINED_FORMS.items():
        if parameters.keys() >= {*names.split()}:
            whole = (form for form in joined if all(input_.forward_path[0] in parameters for input_ in form.inputs))
            yield from (_restricted_to(compose(COMMON_SPEC, form), parameters) for form in whole)
    main = getattr(model, "main_input_name", None)
    needed = tuple(name for name in known if name == main or name in required) or tuple(known)[:1]
    for group in filter(None, dict.fromkeys((needed, tuple(known)))):
        for forms in combinations(*(known[name] for name in group)):
            if "decoder_input_ids" in parameters:
                yield from (_restricted_to(spec, parameters) for spec in _seq2seq_inputs(group, forms))
            yield _restricted_to(compose(COMMON_SPEC, *forms), parameters)


def _seq2seq_inputs(group: tuple[str, ...], forms: Sequence[ExportSpec]) -> Iterator[ExportSpec]:
    if group == ("input_ids",):
        yield compose(seq2seq, CONFIG_KEYS, encoder_inputs, decoder_ids)
    spec = compose(seq2seq, COMMON_SPEC, *forms, decoder_ids)
    # The other cases have the lengths of texts, and the convolutions of a sound need more steps.
    own_cases = {case.name for form in forms for case in form.cases}
    yield evolve(spec, cases=tuple(case for case in spec.cases if not own_cases or case.name in own_cases))


def unknown_arguments(model: Any) -> list[str]:
    """The required arguments of `forward` that no known form has."""
    every = (*JOINED_FORMS.values(), *INPUT_FORMS.values(), *REQUIRED_FORMS.values())
    known = {input_.forward_path[0] for forms in every for form in forms for input_ in form.inputs}
    parameters = forward_parameters(model).items()
    return [name for name, parameter in parameters if _is_required(parameter) and name not in known]


def _is_required(parameter: inspect.Parameter) -> bool:
    return parameter.default is inspect.Parameter.empty


def _restricted_to(spec: ExportSpec, parameters: Collection[str]) -> ExportSpec:
    """The spec without inputs that `forward` has no parameter for; `forward` returns a dict, and no cache."""
    no_cache = always(use_cache=False) if {"use_cache", "past_key_values"} & set(parameters) else ExportSpec()
    spec = compose(spec, always(return_dict=True), no_cache)
    return evolve(spec, inputs=tuple(input_ for input_ in spec.inputs if input_.forward_path[0] in parameters))


SOMETIMES_GIVEN = ("attention_mask", "token_type_ids")
"""Common arguments that only some tokenizers and feature extractors return."""

TABLES = (
    ("text", "tokenization_auto", "TOKENIZER_MAPPING_NAMES"),
    ("audio", "feature_extraction_auto", "FEATURE_EXTRACTOR_MAPPING_NAMES"),
)
"""Modality -> the table of transformers with the class that prepares it for each model type."""


def processed_arguments(model: Any) -> tuple[tuple[str, ...], frozenset[str]]:
    """The parameters of a model's `forward`, and those that its processors give, with masks and sizes of images."""
    config = config_of(model)
    if not hasattr(config, "model_type"):
        return (), frozenset()
    parameters = tuple(forward_parameters(model))
    certain = (set(parameters) & MODALITY_OF.keys()) - {*SOMETIMES_GIVEN}
    unsure = [name for name in SOMETIMES_GIVEN if name in parameters]
    by_class = set(_class_names(config.model_type, parameters)) if unsure else set()
    return parameters, frozenset(certain | by_class.intersection(unsure))


def _class_names(model_type: str, parameters: Collection[str]) -> Iterator[str]:
    """The names that the tokenizer of a model type gives, if the model reads texts, and its feature extractor."""
    import transformers

    for modality, module, table in TABLES:
        name = getattr(getattr(transformers.models.auto, module), table).get(model_type)
        if name and not set(parameters).isdisjoint(MAIN_INPUTS[modality]):
            try:
                names = getattr(getattr(transformers, name, None), "model_input_names", ())
            except ImportError:  # the library of the class is missing
                names = SOMETIMES_GIVEN
            yield from names if isinstance(names, list | tuple) else ()


SEES = "image-text-to-text"

STATE_NAMES: Mapping[str, str] = MappingProxyType({"conv_states": "conv", "recurrent_states": "recurrent"})
"""Attribute of a layer of a cache, whose tensors have a fixed size -> the name of the state in ONNX."""

INDEXER_KEYS = "indexer_keys"
"""Attribute of a cache layer with the keys of an index: attention reads only the keys that the index selects."""


def spec_with_cache(model: Any, base: ExportSpec, result: Any, task: str) -> ExportSpec | None:
    """The spec of a text model with the cache in its result; None if there is no cache of transformers."""
    cache = field(result, "past_key_values")
    name = ExportSpec(name=base.name, call=Call(attention=base.call.attention))
    inputs = tuple(input_.name for input_ in base.inputs)
    if hasattr(cache, CACHES["encoder"]):
        if task == SEES and "input_ids" not in inputs:
            read = tuple(input_ for input_ in base.inputs if input_.name != "decoder_input_ids")
            return compose(evolve(base, inputs=()), image_seq2seq(ExportSpec(inputs=read)), _cache_sizes(result, cache))
        if inputs != ("input_ids", "attention_mask", "decoder_input_ids"):
            return None
        with_experts = hasattr(result, "encoder_router_logits")
        encoder = behaves("decoder", builds("encoder_outputs", "moe_encoder_output")) if with_experts else ExportSpec()
        return compose(text_seq2seq, CONFIG_KEYS, _cache_sizes(result, cache), encoder, name)
    states = cache_spec(cache).cache.rows
    # Token ids may have the axes of the codes of a sound.
    reads_text = "input_ids" in inputs and pattern(base.inputs["input_ids"].axes) == TOKENS
    is_decoder = states and reads_text and {"input_ids", "attention_mask", "token_type_ids"}.issuperset(inputs)
    if not is_decoder:
        return None
    parameters = forward_parameters(model)
    position_ids = positions if "position_ids" in parameters else ExportSpec()
    family = compose(text_decoder, CONFIG_KEYS, position_ids, name)
    family = family if "attention_mask" in parameters or calls_with_others(model) else without(family, "attention_mask")
    return evolve(family, cache=evolve(family.cache, rows=states))


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


def cache_spec(cache: Any) -> ExportSpec:
    """A spec of the states in a cache after a run. Layers whose states are alike share a row; others get a prefix."""
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

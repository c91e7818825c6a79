"""Specs of multimodal models, one part per file: vision and audio encoders, the token embedding, the decoder.

Each part is derived from the model: transformers 5 uses the same names for the features of nearly all models.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from attrs import evolve

from onnxfn.architectures import ARCHITECTURES
from onnxfn.architectures.encoder_decoders import SEEING
from onnxfn.architectures.families.feature_inputs import IMAGE_FORMS, PIXELS
from onnxfn.architectures.families.features import (
    AUDIO,
    DECODER,
    DECODER_WITH_PAST,
    EMBEDDING,
    FEATURES,
    MODEL,
    VISION,
    in_parts,
    inner_decoder,
    prefix_decoder,
    token_table,
    tower,
    wide_decoder,
)
from onnxfn.architectures.families.image_tokens import drawing_parts
from onnxfn.architectures.families.seeing_seq2seq import encoder_and_decoder_of_embeddings, token_rows
from onnxfn.architectures.families.sound_inputs import SOUND_FORMS
from onnxfn.architectures.placeholders import PLACES, placeholders
from onnxfn.architectures.wrappers.feature_methods import draws, feature_method, fixed_sides, has_feature_method
from onnxfn.architectures.wrappers.layer_inputs import LAYER_INPUTS, layer_sizes
from onnxfn.export.derive.auto_tables import is_listed, listed_classes
from onnxfn.export.derive.causal_masks import masked_by_eager
from onnxfn.export.derive.derive import derive_from_model
from onnxfn.export.derive.known_inputs import CONFIG_KEYS
from onnxfn.export.derive.probe import accepted, all_tensors, outputs_spec, summary
from onnxfn.export.load.class_tasks import stated_class
from onnxfn.models.model_state import model_copy
from onnxfn.models.submodules import submodule_of
from onnxfn.specs.algebra.compose import EMPTY, compose, constant, reads
from onnxfn.specs.algebra.config_values import snapshot
from onnxfn.specs.algebra.facts import TOKENS, gives, links, takes
from onnxfn.specs.algebra.spec import ExportSpec, Parts
from onnxfn.specs.axis_symbols import with_symbols
from onnxfn.specs.edits.behaviors import encoder_and_decoder, encoder_and_merged_decoder, model_part
from onnxfn.specs.edits.mrope import with_mrope
from onnxfn.specs.edits.token_embeddings import EMBEDS, embedding_lookup, with_inputs_embeds
from onnxfn.specs.errors import InvalidSpec, listed
from onnxfn.specs.records import OutputSpec
from onnxfn.specs.tasks.tasks import DEFAULT_TASK, TASKS, WITH_PAST, canonical, for_task, task_names

SEES, HEARS, SEES_AND_HEARS = "image-text-to-text", "audio-text-to-text", "any-to-any"
"""The tasks of models that write texts: from images, from sounds, from both."""

TOWERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {SEES: (VISION,), HEARS: (AUDIO,), SEES_AND_HEARS: (VISION, AUDIO)}
)
"""Task of multimodal models -> their possible towers."""

OTHER_TASKS = (DEFAULT_TASK, "automatic-speech-recognition", "text2text-generation")
"""Tasks of other models too: only a model whose configuration names placeholder tokens is written in parts."""

CLIENT_NAMES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {"qwen2_vl": {"image_grid_thw": "grid_thw"}, "voxtral": {"input_features": "audio_values"}}
)
"""Model type -> argument of a tower -> the name of the input in transformers.js, if it differs."""

FORMS: Mapping[str, Mapping[str, tuple[ExportSpec, ...]]] = MappingProxyType({VISION: IMAGE_FORMS, AUDIO: SOUND_FORMS})
"""Tower -> the arguments of its method -> the forms of its inputs."""

ROWS: Mapping[str, str] = MappingProxyType({VISION: "num_image_tokens", AUDIO: "num_audio_tokens"})
"""Tower -> the symbol of the number of rows that it computes, one per token to replace."""

METHODS: Mapping[str, str] = MappingProxyType({VISION: "get_image_features", AUDIO: "get_audio_features"})
"""Tower -> the method of a model that runs it."""

SECTIONS: Mapping[str, str] = MappingProxyType({VISION: "vision_config", AUDIO: "audio_config"})
"""Tower -> the section of a configuration about it: None in a checkpoint without that tower, as in Gemma 4 26B."""

LISTED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {SEES_AND_HEARS: (SEES_AND_HEARS,), SEES: (SEES,), HEARS: (HEARS, "text2text-generation")}
)
"""Task -> the tasks in whose tables transformers lists its classes: Audio Flamingo 3 is in that of encoder-decoders."""


def written_task(model_or_config: Any) -> str | None:
    """The task of a class that sees or hears and writes, by transformers' tables; None for any other class.

    The class is that of a model, or the first one in a configuration. A model that sees and hears does both.
    """
    name = None if isinstance(model_or_config, str) else stated_class(model_or_config)
    if name is None:
        return None
    tasks = (task for task in LISTED if any(is_listed(name, each) for each in LISTED[task]))
    return next((task for task in tasks if all(_has_tower(name, model_or_config, part) for part in TOWERS[task])), None)


def _has_tower(name: str, model_or_config: Any, part: str) -> bool:
    """Whether a class of transformers has the method that runs a tower, and a checkpoint of it has the tower."""
    import transformers

    return has_feature_method(getattr(transformers, name, None), METHODS[part]) and _has_section(model_or_config, part)


def _has_section(model_or_config: Any, part: str) -> bool:
    """Whether a tower may exist: False if the configuration denies it."""
    return snapshot(model_or_config).get(SECTIONS[part], {}) is not None


def is_in_parts(task: str | None) -> bool:
    """Whether all models for a task are written as towers, a table of tokens and a language model."""
    return task is not None and canonical(task).removesuffix(WITH_PAST) in TOWERS


def reads_features(model_or_config: Any, task: str | None) -> bool:
    """Whether a model for a task of OTHER_TASKS reads images or sounds in the places of placeholder tokens.

    The configuration and the methods of the class decide. False for a model type as text, because its class is unknown,
    and for an encoder-decoder, because its encoder takes the tokens. Also False if `forward` takes no embeddings
    (NeoMME), or a mask of the places of its image (Kosmos-2): such a model is one graph.
    """
    if isinstance(model_or_config, (str, Mapping)) or _stem(task) not in OTHER_TASKS:
        return False
    config = snapshot(model_or_config)
    if config.get("is_encoder_decoder"):
        return False
    towers = [part for part in METHODS if FEATURES[part] in placeholders(config).tokens]
    owner = _class_for(model_or_config, config, _stem(task))
    has_towers = bool(towers) and all(has_feature_method(owner, METHODS[part]) for part in towers)
    return has_towers and _replaces_tokens(owner)


def _replaces_tokens(class_: Any) -> bool:
    """Whether the `forward` of a class takes embeddings of tokens, and no mask of the places of an image."""
    parameters = inspect.signature(class_.forward).parameters
    return EMBEDS in parameters and PLACES not in parameters


def _stem(task: str | None) -> str:
    """The task without its past; feature-extraction if there is none."""
    return DEFAULT_TASK if task is None else canonical(task).removesuffix(WITH_PAST)


def _class_for(model_or_config: Any, config: Mapping[str, Any], task: str) -> Any:
    """The class of a model, or the one that transformers' tables list for a configuration and a task."""
    if hasattr(model_or_config, "forward"):
        return type(model_or_config)
    import transformers

    name = next(iter(listed_classes(str(config.get("model_type")), task)), "")
    return getattr(transformers, name, None)


def multimodal_spec(model: Any, task: str) -> ExportSpec:
    """The spec of a model for a task of TOWERS or OTHER_TASKS, derived from the model, which runs on dummy inputs.

    InvalidSpec if the model has none of the towers, or if a tower accepts no inputs that are known.
    """
    name = canonical(task)
    stem = name.removesuffix(WITH_PAST)
    wanted = TOWERS.get(stem, tuple(METHODS))
    has = partial(_has_section, model)
    towers = [part for part in wanted if has(part) and feature_method(model, METHODS[part]) is not None]
    is_encoded = stem == SEES and (model.config.is_encoder_decoder or model.config.model_type in SEEING)
    if not towers and is_encoded:
        return _read_by_encoder(model, name)
    model = model_copy(model)
    model.main_input_name = "input_ids"  # of the decoder, which may run on texts alone
    if not towers:
        methods = listed(METHODS[part] for part in wanted)
        raise InvalidSpec(f"{type(model).__name__} has no method that {task} needs: {methods}")
    if is_encoded:
        return _encoded(model, name, towers)
    if stem == SEES_AND_HEARS and draws(model):
        return _drawing(model, name)
    text_task = name if stem == DEFAULT_TASK else f"text-generation{name.removeprefix(stem)}"
    decoder = MODEL if stem == DEFAULT_TASK else DECODER_WITH_PAST if name.endswith(WITH_PAST) else DECODER
    return compose(
        ExportSpec(name=model.config.model_type, task=name, derived=f"{type(model).__name__} in parts"),
        ExportSpec(call=TASKS[stem].call),
        *(_tower(model, part) for part in towers),
        _language_model(model, decoder, text_task),
        in_parts(*towers, EMBEDDING, decoder),
        EMPTY if layer_sizes(model) is None else links(LAYER_INPUTS, part=EMBEDDING, output=LAYER_INPUTS),
    )


def _read_by_encoder(model: Any, name: str) -> ExportSpec:
    """The spec of an encoder-decoder whose encoder reads images: from its row, or derived from the model."""
    row = {**ARCHITECTURES, **SEEING}.get(model.config.model_type, EMPTY)
    own = name.replace(SEES, "image-to-text")
    if own not in task_names(row):
        return derive_from_model(model, name)
    return evolve(for_task(row, own), task=name, tasks=())


def _encoded(model: Any, name: str, towers: Sequence[str]) -> ExportSpec:
    """The spec of an encoder-decoder: towers, the table of tokens, the encoder and the decoder."""
    past = WITH_PAST if name.endswith(WITH_PAST) else ""
    text = derive_from_model(model, f"text2text-generation{past}", of_texts=True)
    base = evolve(text, name=None, task=None, derived=None, parts=Parts())
    width = _embedding_width(model)
    table = compose(embedding_lookup(compose(CONFIG_KEYS, token_rows)), token_table, width)
    return compose(
        ExportSpec(name=model.config.model_type, task=name, derived=f"{type(model).__name__} in parts"),
        *(_tower(model, part) for part in towers),
        model_part(EMBEDDING, table),
        model_part("encoder", evolve(base, outputs=()), width),
        model_part("decoder", base, width),
        encoder_and_decoder_of_embeddings,
        in_parts(*towers, EMBEDDING),
        encoder_and_merged_decoder() if past else encoder_and_decoder(),
    )


def _drawing(model: Any, name: str) -> ExportSpec:
    """The spec of a model that writes states, with heads for texts and for images."""
    derived = derive_from_model(model, name.replace(SEES_AND_HEARS, "text-generation"), of_texts=True)
    text = evolve(with_inputs_embeds(derived), name=None, task=None, derived=None, parts=Parts())
    width = _embedding_width(model)
    return compose(
        ExportSpec(name=model.config.model_type, task=name, derived=f"{type(model).__name__} in parts"),
        ExportSpec(call=TASKS[SEES_AND_HEARS].call),
        drawing_parts(compose(text, width), CONFIG_KEYS, width, masked_by_eager(model)),
    )


def _language_model(model: Any, decoder: str, task: str) -> ExportSpec:
    """The spec of two parts for a task: the token embedding, and the language model that takes the embeddings."""
    from onnxfn.architectures.wrappers.wide_rows import Width, width_of  # imports torch

    derived, inner = _written_text(model, task)
    text = with_inputs_embeds(derived)
    # Positions in time, height and width.
    text = with_mrope(text) if hasattr(getattr(model, "model", model), "get_rope_index") else text
    alone = evolve(text, name=None, task=None, derived=None, parts=Parts())
    width = _embedding_width(model)
    layer_inputs, taken = _inputs_of_layers(model)
    table = compose(embedding_lookup(alone), token_table, width, layer_inputs)
    is_prefix = any(types.tells_prompts for types in placeholders(snapshot(model)).types)
    rows = wide_decoder if width_of(model) != Width() else EMPTY
    own = inner or (prefix_decoder if is_prefix else rows)
    return compose(model_part(EMBEDDING, table), model_part(decoder, alone, width, own, taken))


def _inputs_of_layers(model: Any) -> tuple[ExportSpec, ExportSpec]:
    """Specs of the inputs of layers, as the table gives them and as the decoder takes them; empty if there are none."""
    sizes = layer_sizes(model)
    if sizes is None:
        return EMPTY, EMPTY
    axes, (layers, width) = f"{TOKENS} num_layer_inputs= layer_input_width=", sizes
    read = reads(num_layer_inputs=constant(layers), layer_input_width=constant(width))
    taken = takes(LAYER_INPUTS, axes, "embeddings", kind="float")
    return compose(read, gives(LAYER_INPUTS, axes)), compose(read, taken)


def _written_text(model: Any, task: str) -> tuple[ExportSpec, ExportSpec | None]:
    """The derived spec of a model that writes texts, and None; or that of its inner model, and `inner_decoder`."""
    from onnxfn.architectures.wrappers.wide_rows import writer_of  # imports torch

    try:
        return derive_from_model(model, task, of_texts=True), None
    except InvalidSpec:
        if (inside := writer_of(model)) is None:
            raise
        return derive_from_model(inside, task, of_texts=True), inner_decoder


def _embedding_width(model: Any) -> ExportSpec:
    """A spec of the width of a row of embeddings."""
    import torch

    device = next(model.parameters()).device
    token = torch.zeros((1, 1), dtype=torch.int64, device=device)
    rows = submodule_of(model, token_table.call.submodule)(token)["inputs_embeds"]
    return reads(embedding_width=constant(int(rows.shape[-1])))


def _tower(model: Any, part: str) -> ExportSpec:
    """A spec of a tower with the first inputs on which it runs."""
    errors: list[Exception] = []
    forms = (_as_clients_say(model, form) for form in _forms(model, part))
    towers = (tower(part, CONFIG_KEYS, form, masked_by_eager(model)) for form in forms)
    for spec, runs in accepted(model, towers, all_tensors, errors):
        (output,) = outputs_spec(runs).outputs
        return model_part(part, spec, ExportSpec(outputs=(_named(output, part),)))
    first = f", first: {summary(errors[0])}" if errors else ""
    raise InvalidSpec(
        f"{METHODS[part]} of {type(model).__name__} runs on no inputs that are known; "
        f"tried in {len(errors)} forms{first}; for its language model alone, choose the task text-generation"
    )


def _as_clients_say(model: Any, form: ExportSpec) -> ExportSpec:
    """The inputs with the names that clients use for this model type."""
    names = CLIENT_NAMES.get(model.config.model_type, {})
    inputs = (evolve(each, name=names.get(each.name, each.name), path=each.forward_path) for each in form.inputs)
    return evolve(form, inputs=tuple(inputs))


def _named(output: OutputSpec, part: str) -> OutputSpec:
    """The output with a usual symbol for the number of its rows, where no input has an axis of that size."""
    of_rows = [axis.symbol for axis in output.axes.axes if axis.symbol.startswith(f"{output.name}_axis")][-1:]
    return with_symbols(output, dict.fromkeys(of_rows, ROWS[part]))  # type: ignore[no-any-return]


def _forms(model: Any, part: str) -> Iterator[ExportSpec]:
    """The forms whose arguments the method of a tower has, those with the most arguments first."""
    sides = fixed_sides(model) if part == VISION else None
    if sides is not None:
        yield compose(PIXELS, reads(image_height=constant(sides[0]), image_width=constant(sides[1])))
    method = feature_method(model, METHODS[part])
    known = inspect.signature(method).parameters if method else {}
    for names, forms in FORMS[part].items():
        if known.keys() >= {*names.split()}:
            yield from forms

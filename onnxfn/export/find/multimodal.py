"""Specs of multimodal models, one part per file, by the names that nearly all models have in transformers 5."""

from typing import Any

from attrs import evolve

from onnxfn.architectures import ARCHITECTURES
from onnxfn.architectures.families import features
from onnxfn.architectures.families.image_tokens import drawing_parts
from onnxfn.architectures.families.seq2seq import ENCODER_FILE, encoder_and_decoder_of_embeddings, token_rows
from onnxfn.architectures.placeholders import placeholders
from onnxfn.architectures.seq2seq import SEEING
from onnxfn.architectures.wrappers.feature_methods import draws, feature_method
from onnxfn.architectures.wrappers.layer_inputs import LAYER_INPUTS, layer_sizes
from onnxfn.export.derive.derive import derive_from_model, masked_by_eager
from onnxfn.export.derive.known_inputs import CONFIG_KEYS
from onnxfn.export.find.written_tasks import METHODS, SEES, SEES_AND_HEARS, TOWERS, has_section, tower_spec
from onnxfn.models.model_state import model_copy
from onnxfn.models.submodules import submodule_of
from onnxfn.specs.algebra.compose import EMPTY, compose, constant, reads
from onnxfn.specs.algebra.config_values import snapshot
from onnxfn.specs.algebra.facts import TOKENS, gives, links, takes
from onnxfn.specs.algebra.spec import ExportSpec, Parts
from onnxfn.specs.edits.behaviors import decoder_with_past, encoder_and_decoder, model_part
from onnxfn.specs.edits.optional_inputs import with_mrope
from onnxfn.specs.edits.token_embeddings import embedding_lookup, with_inputs_embeds
from onnxfn.specs.errors import InvalidSpec, listed
from onnxfn.specs.tasks.tasks import DEFAULT_TASK, TASKS, WITH_PAST, canonical, for_task, task_names


def multimodal_spec(model: Any, task: str) -> ExportSpec:
    """The spec of a model for a task of TOWERS or OTHER_TASKS, from runs. InvalidSpec if no tower runs."""
    name = canonical(task)
    stem = name.removesuffix(WITH_PAST)
    wanted = TOWERS.get(stem, tuple(METHODS))
    possible = [part for part in wanted if has_section(model, part)]
    towers = [part for part in possible if feature_method(model, METHODS[part]) is not None]
    is_encoded = stem == SEES and (model.config.is_encoder_decoder or model.config.model_type in SEEING)
    if not towers and is_encoded:
        row, own = {**ARCHITECTURES, **SEEING}.get(model.config.model_type, EMPTY), name.replace(SEES, "image-to-text")
        has_own = own in task_names(row)
        return evolve(for_task(row, own), task=name, tasks=()) if has_own else derive_from_model(model, name)
    model = model_copy(model)
    model.main_input_name = "input_ids"  # of the decoder, which may run on texts alone
    if not towers:
        methods = listed(METHODS[part] for part in wanted)
        raise InvalidSpec(f"{type(model).__name__} has no method that {task} needs: {methods}")
    named = ExportSpec(name=model.config.model_type, task=name, derived=f"{type(model).__name__} in parts")
    if is_encoded:
        return compose(named, _encoded(model, name, towers))
    if stem == SEES_AND_HEARS and draws(model):
        return compose(named, _drawing(model, name))
    text_task = name if stem == DEFAULT_TASK else f"text-generation{name.removeprefix(stem)}"
    written = features.DECODER_WITH_PAST if name.endswith(WITH_PAST) else features.DECODER
    decoder = features.MODEL if stem == DEFAULT_TASK else written
    return compose(
        named,
        ExportSpec(call=TASKS[stem].call),
        *(tower_spec(model, part) for part in towers),
        language_model(model, decoder, text_task),
        features.in_parts(*towers, features.EMBEDDING, decoder),
        EMPTY if layer_sizes(model) is None else links(LAYER_INPUTS, part=features.EMBEDDING, output=LAYER_INPUTS),
    )


def _encoded(model: Any, name: str, towers: list[str]) -> ExportSpec:
    """The spec of an encoder-decoder: towers, the table of tokens, the encoder and the decoder."""
    past = WITH_PAST if name.endswith(WITH_PAST) else ""
    text = derive_from_model(model, f"text2text-generation{past}", of_texts=True)
    base = evolve(text, name=None, task=None, derived=None, parts=Parts())
    width = embedding_width(model)
    table = compose(embedding_lookup(compose(CONFIG_KEYS, token_rows)), features.token_table, width)
    return compose(
        *(tower_spec(model, part) for part in towers),
        model_part(features.EMBEDDING, table),
        model_part("encoder", evolve(base, outputs=()), width),
        model_part("decoder", base, width),
        encoder_and_decoder_of_embeddings,
        features.in_parts(*towers, features.EMBEDDING),
        *((ENCODER_FILE, decoder_with_past()) if past else (encoder_and_decoder(),)),
    )


def _drawing(model: Any, name: str) -> ExportSpec:
    """The spec of a model that writes states, with heads for texts and for images."""
    derived = derive_from_model(model, name.replace(SEES_AND_HEARS, "text-generation"), of_texts=True)
    text = evolve(with_inputs_embeds(derived), name=None, task=None, derived=None, parts=Parts())
    width = embedding_width(model)
    return compose(
        ExportSpec(call=TASKS[SEES_AND_HEARS].call),
        drawing_parts(compose(text, width), CONFIG_KEYS, width, masked_by_eager(model)),
    )


def language_model(model: Any, decoder: str, task: str) -> ExportSpec:
    """The spec of two parts for a task: the token embedding, and the language model that takes the embeddings."""
    from onnxfn.architectures.wrappers.wide_rows import Width, width_of  # imports torch

    derived, inner = _written_text(model, task)
    text = with_inputs_embeds(derived)
    # Positions in time, height and width.
    text = with_mrope(text) if hasattr(getattr(model, "model", model), "get_rope_index") else text
    alone = evolve(text, name=None, task=None, derived=None, parts=Parts())
    width = embedding_width(model)
    layer_inputs, taken = _inputs_of_layers(model)
    table = compose(embedding_lookup(alone), features.token_table, width, layer_inputs)
    is_prefix = any(types.tells_prompts for types in placeholders(snapshot(model)).types)
    rows = features.wide_decoder if width_of(model) != Width() else EMPTY
    own = inner or (features.prefix_decoder if is_prefix else rows)
    return compose(model_part(features.EMBEDDING, table), model_part(decoder, alone, width, own, taken))


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
        return derive_from_model(inside, task, of_texts=True), features.inner_decoder


def embedding_width(model: Any) -> ExportSpec:
    """A spec of the width of a row of embeddings."""
    token = next(model.parameters()).new_zeros((1, 1)).long()
    rows = submodule_of(model, features.token_table.call.submodule)(token)["inputs_embeds"]
    return reads(embedding_width=constant(int(rows.shape[-1])))

"""Specs of multimodal models, one part per file: vision and audio encoders, the token embedding, the decoder.

Each part is derived from the model: transformers 5 uses the same names for the features of nearly all models.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import evolve

from onnxfn.architectures import ARCHITECTURES
from onnxfn.architectures.families.features import DECODER, DECODER_WITH_PAST, EMBEDDING, MODEL, in_parts, token_table
from onnxfn.architectures.families.image_tokens import drawing_parts
from onnxfn.architectures.families.seq2seq import ENCODER_FILE, encoder_and_decoder_of_embeddings, token_rows
from onnxfn.architectures.seq2seq import SEEING
from onnxfn.architectures.wrappers.feature_methods import draws, feature_method
from onnxfn.architectures.wrappers.layer_inputs import LAYER_INPUTS, layer_sizes
from onnxfn.export.derive.derive import derive_from_model, masked_by_eager
from onnxfn.export.derive.known_inputs import CONFIG_KEYS
from onnxfn.export.find.language_models import embedding_width, language_model
from onnxfn.export.find.written_tasks import METHODS, SEES, SEES_AND_HEARS, TOWERS, has_section, tower_spec
from onnxfn.models.model_state import model_copy
from onnxfn.specs.algebra.compose import EMPTY, compose
from onnxfn.specs.algebra.facts import links
from onnxfn.specs.algebra.spec import ExportSpec, Parts
from onnxfn.specs.edits.behaviors import decoder_with_past, encoder_and_decoder, model_part
from onnxfn.specs.edits.token_embeddings import embedding_lookup, with_inputs_embeds
from onnxfn.specs.errors import InvalidSpec, listed
from onnxfn.specs.tasks.tasks import DEFAULT_TASK, TASKS, WITH_PAST, canonical, for_task, task_names


def multimodal_spec(model: Any, task: str) -> ExportSpec:
    """The spec of a model for a task of TOWERS or OTHER_TASKS, derived from the model, which runs on dummy inputs.

    InvalidSpec if the model has none of the towers, or if a tower accepts no inputs that are known.
    """
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
    decoder = MODEL if stem == DEFAULT_TASK else DECODER_WITH_PAST if name.endswith(WITH_PAST) else DECODER
    return compose(
        named,
        ExportSpec(call=TASKS[stem].call),
        *(tower_spec(model, part) for part in towers),
        language_model(model, decoder, text_task),
        in_parts(*towers, EMBEDDING, decoder),
        EMPTY if layer_sizes(model) is None else links(LAYER_INPUTS, part=EMBEDDING, output=LAYER_INPUTS),
    )


def _encoded(model: Any, name: str, towers: Sequence[str]) -> ExportSpec:
    """The spec of an encoder-decoder: towers, the table of tokens, the encoder and the decoder."""
    past = WITH_PAST if name.endswith(WITH_PAST) else ""
    text = derive_from_model(model, f"text2text-generation{past}", of_texts=True)
    base = evolve(text, name=None, task=None, derived=None, parts=Parts())
    width = embedding_width(model)
    table = compose(embedding_lookup(compose(CONFIG_KEYS, token_rows)), token_table, width)
    return compose(
        *(tower_spec(model, part) for part in towers),
        model_part(EMBEDDING, table),
        model_part("encoder", evolve(base, outputs=()), width),
        model_part("decoder", base, width),
        encoder_and_decoder_of_embeddings,
        in_parts(*towers, EMBEDDING),
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

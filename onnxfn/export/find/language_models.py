"""The spec of the language model of a multimodal model: a table of tokens, and a model that takes embeddings."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from onnxfn.architectures.families.features import EMBEDDING, inner_decoder, prefix_decoder, token_table, wide_decoder
from onnxfn.architectures.placeholders import placeholders
from onnxfn.architectures.wrappers.layer_inputs import LAYER_INPUTS, layer_sizes
from onnxfn.export.derive.derive import derive_from_model
from onnxfn.models.submodules import submodule_of
from onnxfn.specs.algebra.compose import EMPTY, compose, constant, reads
from onnxfn.specs.algebra.config_values import snapshot
from onnxfn.specs.algebra.facts import TOKENS, gives, takes
from onnxfn.specs.algebra.spec import ExportSpec, Parts
from onnxfn.specs.edits.behaviors import model_part
from onnxfn.specs.edits.optional_inputs import with_mrope
from onnxfn.specs.edits.token_embeddings import embedding_lookup, with_inputs_embeds
from onnxfn.specs.errors import InvalidSpec


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


def embedding_width(model: Any) -> ExportSpec:
    """A spec of the width of a row of embeddings."""
    import torch

    device = next(model.parameters()).device
    token = torch.zeros((1, 1), dtype=torch.int64, device=device)
    rows = submodule_of(model, token_table.call.submodule)(token)["inputs_embeds"]
    return reads(embedding_width=constant(int(rows.shape[-1])))

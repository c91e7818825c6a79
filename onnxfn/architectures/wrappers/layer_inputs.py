"""Models whose layers get inputs of their own, by token: Gemma 3n (ai.google.dev/gemma/docs/gemma-3n, PLE caching)."""

from typing import Any

LAYER_INPUTS = "per_layer_inputs"
"""The argument of `forward` for the inputs of all layers: `[batch, length, layers, width]`."""


def layered_decoder(model: Any) -> Any | None:
    """The module of a model that looks up an input for each of its layers; None if there is none."""
    modules = (each for each in model.modules() if hasattr(each, "get_per_layer_inputs"))
    return next((each for each in modules if each.hidden_size_per_layer_input), None)


def layer_sizes(model: Any) -> tuple[int, int] | None:
    """The number of layers, and the width of the input of each; None if layers have no separate input."""
    decoder = layered_decoder(model)
    return None if decoder is None else (decoder.config.num_hidden_layers, decoder.hidden_size_per_layer_input)


def decoder_inputs(model: Any, input_ids: Any) -> tuple[Any, Any]:
    """The embeddings of tokens and the inputs of layers that a model, run without its language model, hands to it."""
    from transformers.utils import ModelOutput

    handed: dict[str, Any] = {}

    def forward(**inputs: Any) -> Any:
        handed.update(inputs)
        result = ModelOutput(last_hidden_state=inputs["inputs_embeds"])
        # The fields that a whole model reads, as attributes; from transformers 5.24 it unpacks the result.
        fields = ("past_key_values", "hidden_states", "attentions", "shared_kv_states", "router_logits")
        vars(result).update(dict.fromkeys(fields), **result)
        return result

    decoder = layered_decoder(model)
    decoder.forward = forward  # type: ignore[union-attr]
    try:
        model.base_model(input_ids=input_ids, use_cache=False)
    finally:
        del decoder.forward  # type: ignore[union-attr]
    return handed["inputs_embeds"], handed[LAYER_INPUTS]

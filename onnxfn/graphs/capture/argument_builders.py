"""Objects that `forward` takes and that hold tensors, made of the tensors at their paths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

CacheTensors = Mapping[str, Mapping[str, Any]]
"""Layer -> attribute of that layer of the cache -> tensor."""

# A layer that cuts itself to its window counts tokens in Python, which a trace would bake in: it keeps everything here,
# and the model's mask applies the window (transformers.cache_utils, 5.23).
UNCUT: Mapping[str, str] = MappingProxyType(
    {
        "DynamicSlidingWindowLayer": "DynamicLayer",
        "LinearAttentionAndSlidingWindowAttentionLayer": "LinearAttentionAndFullAttentionLayer",
    }
)


def dynamic_cache(model: Any, kept: CacheTensors) -> Any:
    """A cache of transformers that holds these tensors, layer by layer; without any, one that is about to be filled."""
    from transformers.cache_utils import DynamicCache

    cache = DynamicCache(config=model.config)
    cache.layers = [_layer(layer, kept.get(str(index), {})) for index, layer in enumerate(cache.layers)]
    return cache


def dynamic_cache_without_config(_: Any, kept: CacheTensors) -> Any:
    """A cache of as many layers as there are tensors for, whatever the configuration says of layers."""
    from transformers.cache_utils import DynamicCache, DynamicLayer

    cache = DynamicCache()
    if kept:
        cache.layers = [_layer(DynamicLayer(), kept.get(str(index), {})) for index in range(1 + max(map(int, kept)))]
    return cache


def minimax_cache(model: Any, kept: CacheTensors) -> Any:
    """MiniMax's cache, where what a layer without keys and values keeps stands in a list beside the layers."""
    from transformers.cache_utils import DynamicLayer, LinearAttentionLayer
    from transformers.models.minimax.modeling_minimax import MiniMaxCache

    cache, kinds = MiniMaxCache(), model.config.layer_types
    found = (DynamicLayer() if kind == "full_attention" else LinearAttentionLayer() for kind in kinds)
    cache.layers = [_layer(layer, kept.get(str(index), {})) for index, layer in enumerate(found)]
    cache.linear_cache = [kept.get(str(index), {}).get("linear") for index in range(len(kinds))]
    return cache


def encoder_decoder_cache(model: Any, kept: Mapping[str, CacheTensors]) -> Any:
    """A cache of transformers for a decoder that also looks at an encoder: its own part, and that of the encoder."""
    from transformers.cache_utils import EncoderDecoderCache

    return EncoderDecoderCache(
        dynamic_cache_without_config(model, kept.get("self_attention_cache", {})),
        dynamic_cache_without_config(model, kept.get("cross_attention_cache", {})),
    )


def encoder_output(_: Any, given: Mapping[str, Any]) -> Any:
    """What an encoder gave, as a decoder takes it."""
    from transformers.modeling_outputs import BaseModelOutput

    return BaseModelOutput(**given)


def moe_encoder_output(_: Any, given: Mapping[str, Any]) -> Any:
    """What an encoder with experts gave, without word of who computed it."""
    from transformers.modeling_outputs import MoEModelOutput

    return MoEModelOutput(**given)


def moonshine_encoder_output(model: Any, given: Mapping[str, Any]) -> Any:
    """What Moonshine's encoder gave: its states, and which of them are of padding, told by a mask over the waveforms.

    A state is of padding where the first of the samples that it was made of is (modeling_moonshine, transformers 5.23).
    """
    import torch
    from transformers.models.moonshine.modeling_moonshine import MoonshineEncoderModelOutput

    states, mask = given["last_hidden_state"], given["attention_mask"]
    encoder = model.get_encoder()
    stride = encoder.conv1.stride[0] * encoder.conv2.stride[0] * encoder.conv3.stride[0]
    firsts = torch.arange(states.shape[1], device=states.device) * stride
    return MoonshineEncoderModelOutput(last_hidden_state=states, attention_mask=mask.index_select(1, firsts))


def moonshine_streaming_encoder_output(model: Any, given: Mapping[str, Any]) -> Any:
    """What Moonshine's streaming encoder gave: its states, and which are heard, told by a mask over the waveforms.

    A state is made of the frames 4 times as far, and of the 12 before (modeling_moonshine_streaming, transformers
    5.23). The states are a copy, as the decoder adds the places to them where they lie.
    """
    import torch
    from transformers.models.moonshine_streaming.modeling_moonshine_streaming import (
        MoonshineStreamingEncoderModelOutput,
    )

    states = given["last_hidden_state"].clone()
    heard = given["attention_mask"].sum(-1, keepdim=True) // model.get_encoder().embedder.frame_len
    places = torch.arange(states.shape[1], device=states.device)
    mask = (4 * places - 12 < heard) & (heard > 0)
    return MoonshineStreamingEncoderModelOutput(last_hidden_state=states, attention_mask=mask)


def parakeet_encoder_output(model: Any, given: Mapping[str, Any]) -> Any:
    """What Parakeet's encoder gave: its states, and which are heard, told by a mask over the filter banks."""
    from transformers.models.parakeet.modeling_parakeet import ParakeetEncoderModelOutput

    states, mask = given["last_hidden_state"], given["attention_mask"]
    heard = model.get_encoder()._get_output_attention_mask(mask, target_length=states.shape[1])
    return ParakeetEncoderModelOutput(last_hidden_state=states, attention_mask=heard.int())


def _layer(found: Any, tensors: Mapping[str, Any]) -> Any:
    from transformers import cache_utils

    kind = type(found).__name__
    states = {"number_of_states": found.number_of_states} if hasattr(found, "number_of_states") else {}
    layer = getattr(cache_utils, UNCUT[kind])(**states) if kind in UNCUT else found
    if "keys" in tensors:
        layer.keys, layer.values = tensors["keys"], tensors["values"]
        layer.dtype, layer.device = layer.keys.dtype, layer.keys.device
        layer.is_initialized = True
    for name, tensor in tensors.items():
        attribute, _, index = name.partition(".")
        if index:
            _set_state(layer, attribute, int(index), tensor)
    return layer


def _set_state(layer: Any, states: str, index: int, tensor: Any) -> None:
    """A state of a recurrent layer: a copy, as the layer writes into its own."""
    getattr(layer, states)[index] = tensor.clone()
    getattr(layer, f"is_{states}_initialized")[index] = True
    layer.has_previous_state[index] = True
    layer.dtype, layer.device = tensor.dtype, tensor.device
    if states == "conv_states":
        layer.conv_kernel_size[index] = tensor.shape[-1]


ARGUMENT_BUILDERS: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {
        made.__name__: made
        for made in (
            dynamic_cache,
            encoder_decoder_cache,
            dynamic_cache_without_config,
            minimax_cache,
            encoder_output,
            moe_encoder_output,
            moonshine_streaming_encoder_output,
            parakeet_encoder_output,
            moonshine_encoder_output,
        )
    }
)

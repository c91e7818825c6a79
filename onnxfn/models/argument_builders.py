"""Functions that build an argument of `forward`, such as a cache, from the model and the tensors, nested by paths."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.specs.converters import resolve
from onnxfn.specs.edits.logits_to_keep import LOGITS_TO_KEEP
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.plan.cache_tensors import WRITE_INDICES
from onnxfn.specs.records import ArgumentBuilder

CacheTensors = Mapping[str, Mapping[str, Any]]
"""Index of a layer -> attribute of that layer of the cache -> tensor."""

# A layer with a sliding window drops old tokens and counts them in Python, so a trace would have the count as a
# constant. The full layer keeps all tokens, and the model's mask applies the window (transformers.cache_utils, 5.23).
FULL_LAYERS: Mapping[str, str] = MappingProxyType(
    {
        "DynamicSlidingWindowLayer": "DynamicLayer",
        "LinearAttentionAndSlidingWindowAttentionLayer": "LinearAttentionAndFullAttentionLayer",
    }
)
"""Layer of a cache with a sliding window -> the same layer without."""


def built_arguments(model: Any, builders: Iterable[ArgumentBuilder], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `forward` with the objects that these builders make of them, the inner ones first."""
    built: Any = dict(arguments)
    for builder in sorted(builders, key=lambda each: -each.name.count(".")):
        built = _with_object(model, builder, built, builder.name.split("."))
    return dict(built)


def _with_object(model: Any, builder: ArgumentBuilder, tree: Any, path: list[str]) -> Any:
    """A tree with the object of a builder at a path."""
    if not path:
        build = resolve(builder.by, {**ARGUMENT_BUILDERS, **CLASSES}, kind="argument builder")
        if isinstance(tree, Mapping) and WRITE_INDICES in tree:
            others = {name: value for name, value in tree.items() if name != WRITE_INDICES}
            return in_buffers(build(model, others), tree[WRITE_INDICES])
        return build(model, tree) if builder.by in ARGUMENT_BUILDERS else build(**tree)
    if isinstance(tree, Mapping):
        return {**tree, path[0]: _with_object(model, builder, tree.get(path[0], {}), path[1:])}
    return tuple(
        _with_object(model, builder, item, path[1:]) if str(index) == path[0] else item
        for index, item in enumerate(tree)
    )


def dynamic_cache(model: Any, tensors: CacheTensors) -> Any:
    """A `DynamicCache` with the layers of the configuration, which hold these tensors; layers without any are empty."""
    from transformers.cache_utils import DynamicCache

    cache = DynamicCache(config=model.config)
    # each further run of a layer has a layer of the cache, like the first one that has tensors of the same names
    kinds = {frozenset(tensors.get(str(index), {})): layer for index, layer in reversed([*enumerate(cache.layers)])}
    more = range(len(cache.layers), 1 + max(map(int, tensors), default=-1)) if cache.layers else ()
    layers = (*cache.layers, *(_new_layer(kinds[frozenset(tensors[str(index)])]) for index in more))
    cache.layers = [_filled_layer(layer, tensors.get(str(index), {})) for index, layer in enumerate(layers)]
    for module in (each for each in model.modules() if getattr(each, "sliding_window", None)):
        # Such attention reads the keys of the cache itself, and would cut them to its window. The mask has the window.
        if "shared_kv_states" in inspect.signature(module.forward).parameters:
            module.sliding_window = None
    return cache


def dynamic_cache_without_config(_: Any, tensors: CacheTensors) -> Any:
    """A `DynamicCache` with one layer per pair of tensors, regardless of the configuration."""
    from transformers.cache_utils import DynamicCache, DynamicLayer

    cache, layers = DynamicCache(), 1 + max(map(int, tensors), default=-1)
    cache.layers = [_filled_layer(DynamicLayer(), tensors.get(str(index), {})) for index in range(layers)]
    return cache


def minimax_cache(model: Any, tensors: CacheTensors) -> Any:
    """MiniMax's cache: the states of its linear attention are a list next to the layers, one item per layer."""
    from transformers.cache_utils import DynamicLayer, LinearAttentionLayer
    from transformers.models.minimax.modeling_minimax import MiniMaxCache

    cache, kinds = MiniMaxCache(), model.config.layer_types
    layers = (DynamicLayer() if kind == "full_attention" else LinearAttentionLayer() for kind in kinds)
    cache.layers = [_filled_layer(layer, tensors.get(str(index), {})) for index, layer in enumerate(layers)]
    cache.linear_cache = [tensors.get(str(index), {}).get("linear") for index in range(len(kinds))]
    return cache


def encoder_decoder_cache(model: Any, tensors: Mapping[str, CacheTensors]) -> Any:
    """An `EncoderDecoderCache`: the caches of a decoder's self-attention and of its cross-attention."""
    from transformers.cache_utils import EncoderDecoderCache

    names = ("self_attention_cache", "cross_attention_cache")
    return EncoderDecoderCache(*(dynamic_cache_without_config(model, tensors.get(name, {})) for name in names))


def in_buffers(cache: Any, written: Any) -> Any:
    """A cache whose keys and values are buffers of one length, which begin with those of `written` tokens."""
    for layer in getattr(cache, "self_attention_cache", cache).layers:
        if getattr(layer, "keys", None) is not None:
            _keep_length(layer, written)
    return cache


def _keep_length(layer: Any, written: Any) -> None:
    """Lets a layer of a cache write new keys and values into its own, behind those of `written` tokens."""

    def update(keys: Any, values: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
        start, layer.written = layer.written, layer.written + keys.shape[2]
        layer.keys = layer.keys.slice_scatter(keys, 2, start, layer.written)
        layer.values = layer.values.slice_scatter(values, 2, start, layer.written)
        return layer.keys, layer.values

    layer.written, layer.update = written, update
    layer.is_compileable = (
        True  # else transformers leaves out the mask for one token, which then reads the whole buffer
    )
    layer.get_seq_length = lambda *_: layer.written
    layer.get_mask_sizes = lambda *_: (layer.keys.shape[2], 0)


def last_positions(model: Any, number: Any) -> slice:
    """The last positions of an axis, as many as a number says; 0: all. InvalidSpec if `forward` lacks the argument."""
    if LOGITS_TO_KEEP not in inspect.signature(model.forward).parameters:
        name = f"forward of {type(model).__name__} has no argument {LOGITS_TO_KEEP}"
        raise InvalidSpec(f"{name}: it computes the logits of all tokens; leave out the input num_logits_to_keep")
    count = number.item()
    torch_name("check")(count >= 0)
    return slice(-count, None)


def moonshine_encoder_output(model: Any, tensors: Mapping[str, Any]) -> Any:
    """The output of Moonshine's encoder: its states, and their mask from the mask of the waveforms, if there is one."""
    import torch
    from transformers.models.moonshine.modeling_moonshine import MoonshineEncoderModelOutput

    states, mask = tensors["last_hidden_state"], tensors.get("attention_mask")
    if mask is not None:
        encoder = model.get_encoder()
        # a state is padding when the first sample that it is computed from is padding
        stride = encoder.conv1.stride[0] * encoder.conv2.stride[0] * encoder.conv3.stride[0]
        mask = mask.index_select(1, torch.arange(states.shape[1], device=states.device) * stride)
    return MoonshineEncoderModelOutput(last_hidden_state=states, attention_mask=mask)


def moonshine_streaming_encoder_output(model: Any, tensors: Mapping[str, Any]) -> Any:
    """The output of Moonshine's streaming encoder; state i is computed from frame 4 * i and the 12 before it."""
    import torch
    from transformers.models.moonshine_streaming import modeling_moonshine_streaming as modeling

    states = tensors["last_hidden_state"].clone()  # the decoder adds positions to them in place
    frames = tensors["attention_mask"].sum(-1, keepdim=True) // model.get_encoder().embedder.frame_len
    mask = (4 * torch.arange(states.shape[1], device=states.device) - 12 < frames) & (frames > 0)
    return modeling.MoonshineStreamingEncoderModelOutput(last_hidden_state=states, attention_mask=mask)


def parakeet_encoder_output(model: Any, tensors: Mapping[str, Any]) -> Any:
    """The output of Parakeet's encoder: its states, and their mask if the mel features have one."""
    from transformers.models.parakeet.modeling_parakeet import ParakeetEncoderModelOutput

    states, mask = tensors["last_hidden_state"], tensors.get("attention_mask")
    if mask is not None:
        mask = model.get_encoder()._get_output_attention_mask(mask, target_length=states.shape[1]).int()
    return ParakeetEncoderModelOutput(last_hidden_state=states, attention_mask=mask)


def _new_layer(layer: Any) -> Any:
    """An empty layer of a cache of the same kind; a full one if the layer has a sliding window."""
    from transformers import cache_utils

    arguments = {"number_of_states": layer.number_of_states} if hasattr(layer, "number_of_states") else {}
    kind = FULL_LAYERS.get(type(layer).__name__)
    return (getattr(cache_utils, kind) if kind else type(layer))(**arguments)


def _filled_layer(layer: Any, tensors: Mapping[str, Any]) -> Any:
    """A layer of a cache that holds these tensors; one with a sliding window becomes a full one."""
    filled = _new_layer(layer) if type(layer).__name__ in FULL_LAYERS else layer
    if "keys" in tensors:
        filled.keys, filled.values = tensors["keys"], tensors["values"]
        filled.dtype, filled.device = filled.keys.dtype, filled.keys.device
        filled.is_initialized = True
    if "indexer_keys" in tensors:
        filled.indexer_keys, filled.is_indexer_initialized = tensors["indexer_keys"], True
    for name, tensor in _joined_parts(tensors).items():
        attribute, _, index = name.partition(".")
        if index:
            getattr(filled, attribute)[int(index)] = tensor.clone()  # the layer writes into its states in place
            getattr(filled, f"is_{attribute}_initialized")[int(index)] = True
            filled.has_previous_state[int(index)] = True
            filled.dtype, filled.device = tensor.dtype, tensor.device
            if attribute == "conv_states":
                filled.conv_kernel_size[int(index)] = tensor.shape[-1]
    return filled


def _joined_parts(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors of a layer, where parts such as `conv_states.query` are joined along channels as `conv_states.0`."""
    import torch

    parts: dict[str, list[Any]] = {}
    for name, tensor in tensors.items():
        attribute, _, part = name.partition(".")
        parts.setdefault(f"{attribute}.0" if part and not part.isdecimal() else name, []).append(tensor)
    return {name: torch.cat(each, dim=1) if len(each) > 1 else each[0] for name, each in parts.items()}


ARGUMENT_BUILDERS: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {
        "as_list": lambda _, items: list(items),  # a tuple would refuse to be added to
        "cache_of_layers": lambda model, cache: dynamic_cache_without_config(
            model, {str(number): layer for number, layer in enumerate(cache["layers"])}
        ),
        **{build.__name__: build for build in (dynamic_cache, encoder_decoder_cache, dynamic_cache_without_config)},
        **{build.__name__: build for build in (minimax_cache, last_positions, parakeet_encoder_output)},
        **{build.__name__: build for build in (moonshine_encoder_output, moonshine_streaming_encoder_output)},
    }
)
"""Name of an argument builder in a spec -> the function."""

CLASSES: Mapping[str, str] = MappingProxyType(
    {
        "encoder_output": "transformers.modeling_outputs:BaseModelOutput",
        "moe_encoder_output": "transformers.modeling_outputs:MoEModelOutput",
    }
)
"""Name of an argument builder in a spec -> the class whose fields the tensors are."""

"""A tiny configuration of any model type, by what configurations call their sizes: for models that no row speaks of."""

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Any

import tiny
from sizes import DERIVED, SECTIONS, SHARED, SPECIAL
from sizes import SIZES as OF_ROWS

# The size that a name in a configuration gets, the first whose pattern fits.
SIZES: tuple[tuple[Any, str], ...] = (
    (0.15, "initializer_range init_std embed_init_std initializer_scale"),
    (128, "vocab_size *_vocab_size vocab_size_per_layer_input n_words"),
    (96, "max_position_embeddings *_max_position_embeddings n_positions max_2d_position_embeddings max_*_positions"),
    (7, "num_feat_extract_layers"),
    (2, "num_layers num_*_layers *_num_hidden_layers n_layer n_layers encoder_layers decoder_layers depth num_blocks"),
    (2, "num_key_value_heads *_num_key_value_heads n_head_kv num_kv_heads layers"),
    (4, "num_heads *_heads heads n_head n_heads num_attention_heads"),
    (8, "head_dim attention_head_dim head_size d_kv d_head"),
    (32, "hidden_size *_hidden_size d_model embed_dim *_embed_dim n_embd dim emb_dim embed_size model_dim width"),
    (32, "hidden_dim decoder_hidden_dim projection_dim projection_size embedding_size hidden_channels condition_dim"),
    (32, "hidden_size_global"),
    (32, "conv_dim kv_dim q_dim"),
    (48, "intermediate_size *_intermediate_size ffn_dim *_ffn_dim ffn_hidden_size d_ff d_inner *feedforward* *mlp_dim"),
    (64, "image_size *_image_size img_size"),
    (8, "patch_size *_patch_size"),
    (36, "num_position_embeddings"),
    (64, "encoder_hash_byte_group_vocab num_embeddings"),
    (32, "base_channels latent_channels"),
    (4, "num_frames frames_per_clip window_size *_window_size"),
    (12, "num_queries num_query_tokens num_object_queries"),
    (16, "num_mel_bins n_mels num_mel_filters num_conv_pos_embeddings"),
)


def fits(name: str, patterns: str) -> bool:
    """Whether a name is one of these patterns."""
    return any(fnmatchcase(name, pattern) for pattern in patterns.split())


def sized(name: str, value: Any) -> Any:
    """The small size of what is so called, or the value itself."""
    if isinstance(value, (list, tuple)):
        return _staged(name, list(value)) if value and all(type(one) is int for one in value) else value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    told = OF_ROWS.get(name, next((size for size, patterns in SIZES if fits(name, patterns)), value))
    return min(told, value) if isinstance(value, int) and value > 0 else told


def _staged(name: str, values: list[int]) -> list[int]:
    """Sizes of stages keep their proportions, depths of stages become ones."""
    if fits(name, "depths *_depths"):
        return [1] * len(values)
    if fits(name, "*_indexes *_indices"):
        return [1]
    if fits(name, "num_heads *_heads heads num_attention_heads"):
        return [max(1, one // min(values)) for one in values]
    if fits(name, "hidden_sizes *_hidden_sizes embed_dim embed_dims dims conv_dim") and max(values) > 64:
        return [max(8, one * 16 // max(16, min(values)) // 8 * 8) for one in values]
    return values


def config(model_type: str, **overrides: Any) -> Any:
    """A small configuration of any model type; that of a row where it has one in tiny.py."""
    from transformers import AutoConfig

    if model_type in SPECIAL and model_type not in DERIVED:
        return tiny.config(model_type, **overrides)
    return small(AutoConfig.for_model(model_type), **overrides)


def small(default: Any, **overrides: Any) -> Any:
    """The configuration with small sizes, those inside it too."""
    told = default.to_dict()
    inner = {name: vars(default).get(name) for name in told}
    nested = {name: one for name, one in inner.items() if hasattr(one, "to_dict") and hasattr(one, "model_type")}
    plain = {
        name: sized(name, value)
        for name, value in told.items()
        if name not in nested and name not in ("transformers_version", "model_type", "dtype")
    }
    changed = {name: value for name, value in plain.items() if value != told[name]}
    kinds = list(dict.fromkeys(told.get("layer_types") or ()))
    layers = {"layer_types": (kinds * 2)[:2]} if kinds else {}
    mlps = list(dict.fromkeys(told.get("mlp_layer_types") or ()))
    layers |= {"mlp_layer_types": (mlps * 2)[:2]} if mlps else {}
    layers |= _rotations(told, changed)
    if "fullatt_block_indexes" in told:
        layers |= {"window_size": 32}
    if sections := SECTIONS.get(default.model_type):
        layers["rope_parameters"] = {**(told.get("rope_parameters") or {}), "mrope_section": sections}
    if "kv_lora_rank" in told and "qk_rope_head_dim" in told:
        layers |= {name: size for name, size in SHARED["latent"].items() if name in told}
    own = {**DERIVED.get(default.model_type, {}), **overrides}
    inside = {
        name: small(one, **own.pop(name, {})).to_dict() | {"model_type": one.model_type} for name, one in nested.items()
    }
    return type(default)(**{**_tokens(told, 128), **changed, **layers, **inside, **own})


def _rotations(told: Mapping[str, Any], changed: Mapping[str, Any]) -> dict[str, Any]:
    """Sections of a head that turn with time, height and width, in a head of this size."""
    half = (changed.get("head_dim") or told.get("head_dim") or 8) // 2
    sections = [half - 2 * (half // 3), half // 3, half // 3]
    return {
        name: {**rotations, "mrope_section": sections}
        for name in ("rope_parameters", "rope_scaling")
        if isinstance(rotations := told.get(name), Mapping) and "mrope_section" in rotations
    }


def _tokens(told: Mapping[str, Any], vocabulary: int) -> dict[str, int]:
    """Special tokens that the small vocabulary lacks, each moved to a place of its own near its end."""
    ids = [name for name, value in told.items() if fits(name, "*token_id *token_index") and isinstance(value, int)]
    beyond = [name for name in ids if told[name] >= vocabulary]
    moved = {name: vocabulary - 1 - place for place, name in enumerate(beyond)}
    return {"pad_token_id": 0, **moved} if told.get("pad_token_id", 0) is None else moved


def kind(model_type: str, name: str) -> Any:
    """A class of transformers, also where the package itself does not export it."""
    import transformers
    from transformers.models.auto.configuration_auto import model_type_to_module_name

    if hasattr(transformers, name):
        return getattr(transformers, name)
    folder = model_type_to_module_name(model_type)
    return getattr(import_module(f"transformers.models.{folder}.modeling_{folder}"), name)


def model(model_type: str, name: str, change: Callable[[Any], Any] = lambda config: config, **overrides: Any) -> Any:
    """A model of this class of transformers with a small configuration: uneven weights, a fixed seed."""
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = kind(model_type, name)(change(config(model_type, **overrides))).eval()
        tiny.disturb(made)
    return made

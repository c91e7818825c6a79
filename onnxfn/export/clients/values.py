"""Values of a `config.json` under the names that most configurations have."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

SYNONYMS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "num_hidden_layers": ("n_layer", "n_layers", "num_layers", "num_transformer_layers", "decoder_layers"),
        "hidden_size": ("n_embd", "d_model", "dim"),
        "num_attention_heads": ("n_head", "n_heads", "num_heads", "decoder_attention_heads"),
        "max_position_embeddings": ("n_positions", "n_ctx", "max_seq_len", "seq_length", "max_sequence_length"),
        "vocab_size": ("padded_vocab_size",),
    }
)
"""The name of a value -> the names that older configurations have for it."""

LAYER_LISTS = ("layer_types", "layers_block_type")
"""Keys of lists that have an entry for each layer."""


def config_value(config: Mapping[str, Any], name: str) -> Any:
    """The value that a `config.json` has under a name or a synonym of it, also that of its text model; else None.

    >>> config_value({"n_layer": 3}, "num_hidden_layers")
    3
    >>> config_value({"text_config": {"vocab_size": 9}}, "vocab_size")
    9
    """
    inner = config.get("text_config")
    for values in (config, inner if isinstance(inner, Mapping) else {}):
        present = (values[key] for key in (name, *SYNONYMS.get(name, ())) if values.get(key) is not None)
        if (value := next(present, None)) is not None:
            return value
    lists = (config[key] for key in LAYER_LISTS if isinstance(config.get(key), list))
    return next(map(len, lists), None) if name == "num_hidden_layers" else None

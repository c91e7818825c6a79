"""The lengths of texts from which on a model computes something else, as its configuration says them.

A window of attention, a chunk, the length of the texts of the training, the number of tokens that an indexer selects: a
shorter text does not show whether a file has it. They are found by words in the names of integers, in a configuration
and in those inside it that are of texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

WORDS = re.compile(
    r"sliding_window|attention_window|window_size|window_len|local_attention|attention_chunk|chunk_size|chunk_length"
    r"|original_max_position|index_topk|floor_scale"
)
"""The words in the names of thresholds."""

OTHERS = re.compile(r"vision|image|video|audio|speech|acoustic|lm_head|feed_forward|mamba|pattern|label")
"""The words in the names of other integers, and of configurations that are not of texts."""

LONGROPE, DYNAMIC = "longrope", "dynamic"
"""The types of rope scaling that depend on the largest position; the second is a part of several names."""

ROPE_TYPES, ROTARY = (
    ("rope_type", "type"),
    ("rope_parameters", "rope_scaling", "rope_theta", "rotary_dim", "rotary_pct"),
)
"""The keys of the type of scaling, and of models that have rotary embeddings and no table of positions."""

LONG_QUERIES = "llama_4_scaling_beta"
"""The key of a scaling that multiplies the queries of far positions."""


def is_scaled(rope_type: Any) -> bool:
    """Whether the frequencies of a type of rope scaling depend on the largest position.

    >>> [is_scaled(each) for each in ("default", "longrope", "dynamic", None)]
    [False, True, True, False]
    """
    return isinstance(rope_type, str) and (rope_type == LONGROPE or DYNAMIC in rope_type)


def thresholds(config: Mapping[str, Any]) -> Iterator[int]:
    """The thresholds in a configuration, except those of scalings that are the same for all texts: yarn, llama3.

    >>> text = {"sliding_window": 4096, "index_topk": 2048, "rope_parameters": {"rope_type": "yarn"}}
    >>> [*thresholds({"text_config": text, "vision_config": {"window_size": 7}})]
    [4096, 2048]
    """
    for name, value in _of_texts(config):
        values = value if isinstance(value, (list, tuple)) else (value,)
        yield from (each for each in values if type(each) is int and WORDS.search(name))


def grows_with_text(config: Mapping[str, Any]) -> bool:
    """Whether the frequencies of long texts depend on their length: the positions of the configuration are no limit.

    >>> grows_with_text({"rope_parameters": {"rope_type": "dynamic"}})
    True
    """
    types = [value for name, value in _of_texts(config) if name in ROPE_TYPES]
    return any(is_scaled(each) and each != LONGROPE for each in types)


def has_rotary(config: Mapping[str, Any]) -> bool:
    """Whether a configuration has the keys of rotary embeddings."""
    return any(name in ROTARY and value is not None for name, value in _of_texts(config))


def _of_texts(config: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """The names and values of a configuration, and of those inside it, that are of texts."""
    for name, value in config.items():
        if not OTHERS.search(str(name)):
            yield str(name), value
            yield from _of_texts(value) if isinstance(value, Mapping) and not _is_fixed_scaling(value) else ()


def _is_fixed_scaling(rope: Mapping[str, Any]) -> bool:
    """Whether a dict describes a scaling that is the same for all texts. Some also scale the queries of long texts."""
    types = [rope.get(key) for key in ROPE_TYPES if key in rope]
    return bool(types) and not any(map(is_scaled, types)) and LONG_QUERIES not in rope

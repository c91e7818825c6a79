"""The lengths of texts at which a model computes something else, as its configuration says them.

A window of attention, a chunk, the length of the texts that positions were trained on, the number of tokens that an
indexer selects: a shorter text does not show whether a file has them. They are found by words in the names of integers.
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

OF_OTHERS = re.compile(r"vision|audio|speech|acoustic|image|video|lm_head|_layers$|feed_forward")
"""The words in the names of what is no threshold of a text, and of configurations that are not of texts."""

LONGROPE, DYNAMIC = "longrope", "dynamic"
"""The types of rope scaling that depend on the largest position; the second is a part of several names."""

ROTARY = ("rope_parameters", "rope_scaling", "rope_theta", "rotary_dim", "rotary_pct", "rotary")
"""The keys that configurations of models with rotary embeddings have. Such a model has no table of positions."""


def is_scaled(rope_type: Any) -> bool:
    """Whether the frequencies of a type of rope scaling depend on the largest position.

    >>> [is_scaled(each) for each in ("default", "longrope", "dynamic", None)]
    [False, True, True, False]
    """
    return isinstance(rope_type, str) and (rope_type == LONGROPE or DYNAMIC in rope_type)


def thresholds(config: Mapping[str, Any]) -> Iterator[int]:
    """The thresholds in a configuration, and in those inside it that are of texts.

    >>> config = {"sliding_window": 4096, "rope_parameters": {"full": {"original_max_position_embeddings": 8192}}}
    >>> [*thresholds({"text_config": config, "vision_config": {"window_size": 7}})]
    [4096, 8192]
    """
    for name, value in config.items():
        if OF_OTHERS.search(name):
            continue
        if isinstance(value, Mapping):
            yield from thresholds(value)
        elif WORDS.search(name):
            yield from (each for each in (value if isinstance(value, (list, tuple)) else [value]) if type(each) is int)


def depends_on_positions(config: Mapping[str, Any]) -> bool:
    """Whether dynamic scaling begins where the positions of a configuration end: it then takes longer texts.

    >>> depends_on_positions({"rope_parameters": {"rope_type": "dynamic"}})
    True
    """
    own = [config.get(key) for key in ("rope_type", "type")]
    inner = (value for name, value in config.items() if isinstance(value, Mapping) and not OF_OTHERS.search(name))
    return any(isinstance(each, str) and DYNAMIC in each for each in own) or any(map(depends_on_positions, inner))

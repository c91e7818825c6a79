"""Names that differ between versions of transformers, by what an object has; specs and ONNX keep those of 5.20."""

import inspect
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from typing import Any

GROUPS: tuple[tuple[str, ...], ...] = (
    # Arguments of models, layers and masks, and fields of results.
    ("past_key_values", "cache", "cache_params", "layer_past"),
    ("past_key_values_length", "cache_length"),
    ("encoder_past_key_values", "encoder_cache"),
    ("decoder_past_key_values", "decoder_cache"),
    ("depth_past_key_values", "depth_cache"),
    ("depth_decoder_past_key_values", "depth_decoder_cache"),
)
"""Names of one thing, that of specs first."""

INNER_RESULTS = ("image_outputs", "video_outputs", "audio_outputs")
"""Fields of a result that hold the whole result of a tower; before 5.24 only some of its tensors were fields."""

CACHES = tuple(dict.fromkeys(name for group in GROUPS for name in group if not name.endswith("_length")))
"""The names of all caches among arguments and fields."""


def name_among(name: str, names: Collection[str]) -> str:
    """The name that `names` has for the same thing; `name` itself if it has none."""
    others = next((group for group in GROUPS if name in group), ())
    return name if name in names else next((other for other in others if other in names), name)


def renamed(arguments: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Arguments under the names that a function has for them.

    >>> renamed({"cache": 1, "mask": 2}, ("mask", "past_key_values"))
    {'past_key_values': 1, 'mask': 2}
    """
    return {name_among(name, names): value for name, value in arguments.items()}


def spec_name(name: str) -> str:
    """The name that specs have for an argument or a field."""
    return next((group[0] for group in GROUPS if name in group), name)


def called(model: Any, **arguments: Any) -> Any:
    """The result of a model for these arguments, passed under the names of its own `forward`."""
    return model(**renamed(arguments, inspect.signature(model.forward).parameters))


def field(result: Any, name: str) -> Any:
    """A field of a result, under any of its names; None if there is none."""
    return getattr(result, name_among(name, fields(result)), None)


def fields(result: Any) -> frozenset[str]:
    """The names of what a result holds: its keys and attributes, but for a name that only leads to another one."""
    keys = result.keys() if isinstance(result, Mapping) else ()
    return frozenset((*keys, *getattr(result, "__dict__", ())))


def called_by_any_name(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which also takes its arguments under their names in other versions."""
    names = inspect.signature(function).parameters
    if not any(name in group for group in GROUPS for name in names):
        return function

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        return function(*arguments, **renamed(named, names))

    return call

"""Where a model has the method that computes the features of images or sounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from onnxfn.specs.functions import resolve

OF_FORWARD: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("InstructBlipVideoForConditionalGeneration", "get_image_features"): "instructblipvideo:frame_features",
        ("Kosmos2ForConditionalGeneration", "get_image_features"): "kosmos:image_features",
        ("Kosmos2_5ForConditionalGeneration", "get_image_features"): "kosmos:patch_features",
        ("Qwen2AudioForConditionalGeneration", "get_audio_features"): "qwen2_audio:audio_features",
    }
)
"""A class and the method that it lacks -> the function of `wrappers/` that computes what its `forward` computes."""


def has_feature_method(class_: Any, name: str) -> bool:
    """Whether a class of models has the method that computes features, or a function in place of it."""
    return hasattr(class_, name) or (getattr(class_, "__name__", ""), name) in OF_FORWARD


def feature_method(model: Any, name: str) -> Callable[..., Any] | None:
    """The method of a model, or of the model inside it, that computes features; None if it has none.

    The method of the model inside names its arguments where that of the model hands all of them on.
    """
    inside = getattr(model, getattr(model, "base_model_prefix", "") or "model", None)
    methods = (getattr(owner, name, None) for owner in (getattr(model, "model", None), inside, model))
    return next((method for method in methods if method is not None), _of_forward(model, name))


def _of_forward(model: Any, name: str) -> Callable[..., Any] | None:
    function = OF_FORWARD.get((type(model).__name__, name))
    path = f"onnxfn.architectures.wrappers.{function}"
    return None if function is None else partial(resolve(path, {}, kind="features"), model)

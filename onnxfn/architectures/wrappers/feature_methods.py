"""The method of a model that computes the features of images or sounds, and its arguments."""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from onnxfn.specs.converters import resolve

OF_FORWARD: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("Gemma3nForConditionalGeneration", "get_audio_features"): "own_features:gemma3n_audio",
        ("InstructBlipVideoForConditionalGeneration", "get_image_features"): "own_features:frame_features",
        ("Kosmos2ForConditionalGeneration", "get_image_features"): "own_features:image_features",
        ("Kosmos2_5ForConditionalGeneration", "get_image_features"): "own_features:patch_features",
        ("Qwen2AudioForConditionalGeneration", "get_audio_features"): "own_features:qwen2_audio",
        ("Qwen2AudioModel", "get_audio_features"): "own_features:qwen2_audio",
    }
)
"""A class and a method -> the function of `wrappers/` that computes the same features as `forward` of the class.

The class lacks the method, or its `forward` changes the result of the method.
"""


def has_feature_method(class_: Any, name: str) -> bool:
    """Whether a class of models, its inner model, or a function of OF_FORWARD computes features."""
    own = getattr(class_, "__name__", "")
    module = sys.modules.get(getattr(class_, "__module__", ""))
    has_inside = getattr(class_, "base_model_prefix", "") == "model"  # of BLIP, the model of that name is another one
    inside = getattr(module, own.replace("ForConditionalGeneration", "Model"), None) if has_inside else None
    return any(hasattr(each, name) for each in (class_, inside)) or (own, name) in OF_FORWARD


def feature_method(model: Any, name: str) -> Callable[..., Any] | None:
    """The method of a model, or of the model inside it, that computes features; None if it has none."""
    if function := OF_FORWARD.get((type(model).__name__, name)):
        return partial(resolve(f"onnxfn.architectures.wrappers.{function}", {}, kind="features"), model)
    inside = getattr(model, getattr(model, "base_model_prefix", "") or "model", None)
    # the outer method comes last: it may take its arguments only as `**kwargs`
    methods = (getattr(owner, name, None) for owner in (getattr(model, "model", None), inside, model))
    return next((method for method in methods if method is not None), None)


def fixed_sides(model: Any) -> tuple[int, int] | None:
    """The height and width that a tower of timm was trained for, if it pools to a number of tokens (Gemma 3n)."""
    if getattr(model.config, "vision_soft_tokens_per_image", None) is None:
        return None
    configs = (getattr(each, "pretrained_cfg", None) for each in model.modules())
    size = next((each["input_size"] for each in configs if each), None)
    return None if size is None else (size[1], size[2])


def draws(model: Any) -> bool:
    """Whether a model has a head for codes of images, a table that embeds them, and a decoder of images."""
    methods = ("prepare_embeddings_for_image_generation", "decode_image_tokens")
    return hasattr(getattr(model, "model", None), "generation_head") and all(hasattr(model, name) for name in methods)

"""The tasks of models that see or hear and write texts: which models are written in parts, and their towers."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from onnxfn.architectures.families.features import AUDIO, FEATURES, VISION
from onnxfn.architectures.placeholders import PLACES, placeholders
from onnxfn.architectures.wrappers.feature_methods import has_feature_method
from onnxfn.export.derive.auto_tables import is_listed, listed_classes
from onnxfn.export.load.class_tasks import stated_class
from onnxfn.specs.algebra.config_values import snapshot
from onnxfn.specs.edits.token_embeddings import EMBEDS
from onnxfn.specs.tasks.tasks import DEFAULT_TASK, WITH_PAST, canonical

SEES, HEARS, SEES_AND_HEARS = "image-text-to-text", "audio-text-to-text", "any-to-any"
"""The tasks of models that write texts: from images, from sounds, from both."""

TOWERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {SEES: (VISION,), HEARS: (AUDIO,), SEES_AND_HEARS: (VISION, AUDIO)}
)
"""Task of multimodal models -> their possible towers."""

OTHER_TASKS = (DEFAULT_TASK, "automatic-speech-recognition", "text2text-generation")
"""Tasks of other models too: only a model whose configuration names placeholder tokens is written in parts."""

METHODS: Mapping[str, str] = MappingProxyType({VISION: "get_image_features", AUDIO: "get_audio_features"})
"""Tower -> the method of a model that runs it."""

SECTIONS: Mapping[str, str] = MappingProxyType({VISION: "vision_config", AUDIO: "audio_config"})
"""Tower -> the section of a configuration about it: None in a checkpoint without that tower, as in Gemma 4 26B."""

LISTED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {SEES_AND_HEARS: (SEES_AND_HEARS,), SEES: (SEES,), HEARS: (HEARS, "text2text-generation")}
)
"""Task -> the tasks in whose tables transformers lists its classes: Audio Flamingo 3 is in that of encoder-decoders."""


def written_task(model_or_config: Any) -> str | None:
    """The task of a class that sees or hears and writes, by transformers' tables; None for any other class.

    The class is that of a model, or the first one in a configuration. A model that sees and hears does both.
    """
    name = None if isinstance(model_or_config, str) else stated_class(model_or_config)
    if name is None:
        return None
    tasks = (task for task in LISTED if any(is_listed(name, each) for each in LISTED[task]))
    return next((task for task in tasks if all(_has_tower(name, model_or_config, part) for part in TOWERS[task])), None)


def _has_tower(name: str, model_or_config: Any, part: str) -> bool:
    """Whether a class of transformers has the method that runs a tower, and a checkpoint of it has the tower."""
    import transformers

    return has_feature_method(getattr(transformers, name, None), METHODS[part]) and has_section(model_or_config, part)


def has_section(model_or_config: Any, part: str) -> bool:
    """Whether a tower may exist: False if the configuration denies it."""
    return snapshot(model_or_config).get(SECTIONS[part], {}) is not None


def is_in_parts(task: str | None) -> bool:
    """Whether all models for a task are written as towers, a table of tokens and a language model."""
    return task is not None and canonical(task).removesuffix(WITH_PAST) in TOWERS


def reads_features(model_or_config: Any, task: str | None) -> bool:
    """Whether a model for a task of OTHER_TASKS reads images or sounds in the places of placeholder tokens.

    The configuration and the methods of the class decide. False for a model type as text, because its class is unknown,
    and for an encoder-decoder, because its encoder takes the tokens. Also False if `forward` takes no embeddings
    (NeoMME), or a mask of the places of its image (Kosmos-2): such a model is one graph.
    """
    if isinstance(model_or_config, (str, Mapping)) or stem_of(task) not in OTHER_TASKS:
        return False
    config = snapshot(model_or_config)
    if config.get("is_encoder_decoder"):
        return False
    towers = [part for part in METHODS if FEATURES[part] in placeholders(config).tokens]
    owner = _class_for(model_or_config, config, stem_of(task))
    has_towers = bool(towers) and all(has_feature_method(owner, METHODS[part]) for part in towers)
    return has_towers and _replaces_tokens(owner)


def _replaces_tokens(class_: Any) -> bool:
    """Whether the `forward` of a class takes embeddings of tokens, and no mask of the places of an image."""
    parameters = inspect.signature(class_.forward).parameters
    return EMBEDS in parameters and PLACES not in parameters


def stem_of(task: str | None) -> str:
    """The task without its past; feature-extraction if there is none."""
    return DEFAULT_TASK if task is None else canonical(task).removesuffix(WITH_PAST)


def _class_for(model_or_config: Any, config: Mapping[str, Any], task: str) -> Any:
    """The class of a model, or the one that transformers' tables list for a configuration and a task."""
    if hasattr(model_or_config, "forward"):
        return type(model_or_config)
    import transformers

    name = next(iter(listed_classes(str(config.get("model_type")), task)), "")
    return getattr(transformers, name, None)

"""Tasks and classes of transformers: the task of a class name, the classes that load models for a task."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from onnxfn.specs.algebra.config_values import snapshot
from onnxfn.specs.errors import unknown
from onnxfn.specs.tasks.tasks import TASKS, WITH_PAST, canonical

CLASS_SUFFIXES: Mapping[str, str] = MappingProxyType(
    {
        # A class is named after its task, as `BertForTokenClassification`, or has one of the other suffixes.
        **{f"For{task.title().replace('-', '')}": task for task in TASKS},
        **dict.fromkeys(("ForMaskedLM", "WithLMHeadModel"), "fill-mask"),  # the latter of XLM and Flaubert
        **dict.fromkeys(("LMHeadModel", "ForCausalLM"), "text-generation"),
        **dict.fromkeys(("ForConditionalGeneration", "ForTextToText", "MarianMTModel"), "text2text-generation"),
        "ForSequenceClassification": "text-classification",
        "ForQuestionAnsweringSimple": "question-answering",
        "ForXVector": "audio-xvector",
        **dict.fromkeys(("ForCTC", "ForRNNT", "ForTDT", "ForSpeechToText"), "automatic-speech-recognition"),
        "ForImageSuperResolution": "image-to-image",
        "Backbone": "backbone",
        "ForClassification": "time-series-classification",
        "ForRegression": "time-series-regression",
        "ForMaskedImageModeling": "masked-im",
        **dict.fromkeys(
            ("ForInstanceSegmentation", "ForSegmentation", "ForUniversalSegmentation"), "image-segmentation"
        ),
        **dict.fromkeys(("ForImageTextRetrieval", "ForImageAndTextRetrieval"), "image-text-retrieval"),
        "ForPoseEstimation": "keypoint-detection",
        "ForPrediction": "time-series-forecasting",
        "ForTextToSpeech": "text-to-audio",
        "EncoderDecoderModel": "text2text-generation",
        "EncoderModel": "text-encoding",
        **dict.fromkeys(("Model", "ModelWithProjection"), "feature-extraction"),
    }
)
"""Suffix of a class name in transformers -> the task of the class; the first suffix that matches counts."""

# `ForConditionalGeneration` names models for speech, images and text, encoder-decoders and decoders. A bare model with
# a text tower and an image tower compares texts with images. A detector that reads a text detects what the text names.
OTHER_TASKS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "backbone": ("feature-extraction",),
        "feature-extraction": ("zero-shot-image-classification", "reinforcement-learning", "text-to-audio"),
        "image-text-retrieval": ("zero-shot-image-classification",),
        "object-detection": ("zero-shot-object-detection",),
        "question-answering": ("document-question-answering", "table-question-answering", "visual-question-answering"),
        "retrieval": ("feature-extraction",),
        "text-encoding": ("feature-extraction",),
        "text-classification": ("audio-classification",),
        "text2text-generation": (
            *("automatic-speech-recognition", "image-to-text", "text-generation", "text-to-audio"),
            *("image-text-to-text", "audio-text-to-text", "any-to-any"),
        ),
        "semantic-segmentation": ("image-segmentation",),
    }
)
"""Task of CLASS_SUFFIXES -> other tasks that classes with such a suffix may have."""


def task_of(model_or_class: Any) -> str | None:
    """The task that the name of a class implies.

    A class of transformers is named after its head: `BertForMaskedLM` is for fill-mask. Any other name implies nothing.

    Args:
        model_or_class: The name of a class as text, a model, or a configuration (of transformers, or a dict).
            `architectures` of a configuration names the class that wrote the checkpoint.

    Returns:
        The canonical name of the task, or None if the class name implies no task that onnxfn knows.

    Example:
        >>> task_of("BertForMaskedLM"), task_of("BertForPreTraining")
        ('fill-mask', None)
        >>> task_of({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]})
        'text-generation'
    """
    name = model_or_class if isinstance(model_or_class, str) else stated_class(model_or_class)
    return next((task for suffix, task in CLASS_SUFFIXES.items() if name and name.endswith(suffix)), None)


def served_tasks(class_task: str | None) -> tuple[str, ...]:
    """The possible tasks of a class whose name implies `class_task`: that task, then its OTHER_TASKS."""
    return () if class_task is None else (class_task, *OTHER_TASKS.get(class_task, ()))


def loader_of(task: str) -> str:
    """The class of transformers that loads models for a task. UnknownName for an unknown task."""
    name = canonical(task).removesuffix(WITH_PAST)
    if name not in TASKS:
        raise unknown("task", task, TASKS)
    return TASKS[name].call.loader or "AutoModel"


def class_name(model: Any) -> str:
    """The name of the class of a model; of a model with adapters of peft, that of the model inside."""
    return type(model.get_base_model() if hasattr(model, "get_base_model") else model).__name__


def stated_class(model_or_config: Any) -> str | None:
    """The name of the class of a model of transformers, or of the first one in a configuration; None for any other."""
    if hasattr(model_or_config, "forward"):
        return class_name(model_or_config) if hasattr(getattr(model_or_config, "config", None), "to_dict") else None
    name = next(iter(snapshot(model_or_config).get("architectures") or ()), None)
    return name if isinstance(name, str) else None


def projected_class(model_or_config: Any) -> str | None:
    """The name of the class of a model or configuration if it returns embeddings in place of the pooled state."""
    name = model_or_config and stated_class(model_or_config)
    return name if name and name.endswith("ModelWithProjection") else None

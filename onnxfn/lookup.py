"""Which spec for this model and task."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from attrs import evolve

from onnxfn.architectures import ARCHITECTURES
from onnxfn.errors import InvalidSpec, UnknownName, listed, unknown
from onnxfn.normalizers import snapshot
from onnxfn.records import ExportSpec
from onnxfn.tasks import WITH_PAST, canonical, for_task, task_names

# How transformers ends the name of a class, and the task of what it so ends; the first that fits.
HEADS: Mapping[str, str] = MappingProxyType(
    {
        "ForMaskedLM": "fill-mask",
        "WithLMHeadModel": "fill-mask",  # XLM and Flaubert
        "LMHeadModel": "text-generation",
        "ForCausalLM": "text-generation",
        "ForConditionalGeneration": "text2text-generation",
        "ForSequenceClassification": "text-classification",
        "ForTokenClassification": "token-classification",
        "ForQuestionAnswering": "question-answering",
        "ForQuestionAnsweringSimple": "question-answering",
        "ForMultipleChoice": "multiple-choice",
        "ForAudioClassification": "audio-classification",
        "ForAudioFrameClassification": "audio-frame-classification",
        "ForXVector": "audio-xvector",
        "ForCTC": "automatic-speech-recognition",
        "ForImageClassification": "image-classification",
        "ForMaskedImageModeling": "masked-im",
        "ForDepthEstimation": "depth-estimation",
        "ForObjectDetection": "object-detection",
        "ForSemanticSegmentation": "semantic-segmentation",
        "ForInstanceSegmentation": "image-segmentation",
        "ForSegmentation": "image-segmentation",
        "ForImageSegmentation": "image-segmentation",
        "ForImageTextRetrieval": "image-text-retrieval",
        "ForImageAndTextRetrieval": "image-text-retrieval",
        "ForUniversalSegmentation": "image-segmentation",
        "ForPoseEstimation": "keypoint-detection",
        "ForRetrieval": "feature-extraction",
        "ForPrediction": "time-series-forecasting",
        "ForTextToSpeech": "text-to-audio",
        "MarianMTModel": "text2text-generation",
        "EncoderDecoderModel": "text2text-generation",
        "Model": "feature-extraction",
    }
)

# What else classes of that name serve: those that hear speech, those that read an image, and some of these are decoders
# of text to a text alone.
# Bare models of two towers compare, and detectors that read a text detect what it says.
ALSO: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "feature-extraction": ("zero-shot-image-classification",),
        "image-text-retrieval": ("zero-shot-image-classification",),
        "object-detection": ("zero-shot-object-detection",),
        "question-answering": ("document-question-answering", "visual-question-answering"),
        "text2text-generation": ("automatic-speech-recognition", "image-to-text", "text-generation", "text-to-audio"),
    }
)


WRITES = ("text-generation", "text2text-generation", "automatic-speech-recognition", "image-to-text", "text-to-audio")
"""The tasks whose models write token by token, or frame by frame."""


def spec_for(
    it: Any, task: str | None = None, *, architectures: Mapping[str, ExportSpec] = ARCHITECTURES
) -> ExportSpec:
    """The spec of a model type, a configuration or a model; for a task when one is given, or when a model has one.

    Raises UnknownName for a model type that has no row, and for a task that the row does not know.

    >>> spec_for("bert", task="fill-mask").task
    'fill-mask'
    """
    model_type = it if isinstance(it, str) else _model_type(it)
    if model_type not in architectures:
        raise unknown("model type", model_type, architectures)
    spec = architectures[model_type]
    chosen = task or (None if isinstance(it, str) else _known_task(spec, it))
    return spec if chosen is None else for_task(spec, chosen)


def tasks_for(it: Any, *, architectures: Mapping[str, ExportSpec] = ARCHITECTURES) -> tuple[str, ...]:
    """The tasks of a model type, a configuration or a model.

    >>> tasks_for("splinter")
    ('feature-extraction', 'question-answering')
    """
    model_type = it if isinstance(it, str) else _model_type(it)
    if model_type not in architectures:
        raise unknown("model type", model_type, architectures)
    return task_names(architectures[model_type])


def checkpoint_task(config: Any, *, architectures: Mapping[str, ExportSpec] = ARCHITECTURES) -> str | None:
    """The task of a checkpoint, by what its configuration calls its class; with past where the row knows it so.

    None when the configuration tells none that the row knows. Who exports a model that writes, writes with a cache.
    """
    known = tasks_for(config, architectures=architectures)
    own = next((task for task in served(task_of(config)) if task in known), None)
    return f"{own}{WITH_PAST}" if own in WRITES and f"{own}{WITH_PAST}" in known else own


def task_of(it: Any) -> str | None:
    """The task that the name of a class tells: of a model, of a name, of what a configuration calls its architectures.

    >>> task_of("BertForMaskedLM"), task_of("BertForPreTraining")
    ('fill-mask', None)
    """
    told = it if isinstance(it, str) else _class_name(it)
    return next((task for ending, task in HEADS.items() if told and told.endswith(ending)), None)


def fitting(spec: ExportSpec, model: Any) -> ExportSpec:
    """The spec for the model's own task, when it has none yet; InvalidSpec when the model is of another task.

    A model whose class tells no task is taken at its word, and a spec that says its outputs needs no task.
    """
    own = task_of(model)
    if spec.task is None and spec.tasks:
        if own is None and spec.outputs:
            return evolve(spec, tasks=())
        if own is None:
            raise InvalidSpec(
                f"{type(model).__name__} does not tell its task; say it: for_task(spec, task), "
                f"task one of {listed(task_names(spec))}"
            )
        return for_task(spec, next((task for task in served(own) if task in task_names(spec)), own))
    if own is not None and spec.task is not None and canonical(spec.task).removesuffix(WITH_PAST) not in served(own):
        raise InvalidSpec(
            f"{type(model).__name__} is a model for {own}, not for {spec.task}; "
            f"load it with {spec.loader or 'a class for ' + spec.task}, or ask for {own}"
        )
    return spec


def _known_task(spec: ExportSpec, it: Any) -> str | None:
    return next((task for task in served(task_of(it)) if task in task_names(spec)), None)


def served(own: str | None) -> tuple[str, ...]:
    """The tasks that a class is for whose name tells one: `ForConditionalGeneration` is for several."""
    return () if own is None else (own, *ALSO.get(own, ()))


def _class_name(it: Any) -> str | None:
    """Names tell tasks among the models of transformers; what another module is called tells nothing."""
    if hasattr(it, "forward"):
        return type(it).__name__ if hasattr(getattr(it, "config", None), "to_dict") else None
    return next(iter(snapshot(it).get("architectures") or ()), None)


def _model_type(it: Any) -> str:
    model_type = snapshot(it).get("model_type")
    if not model_type:
        raise UnknownName(f"{type(it).__name__} has no model_type; compose a spec of your own, or pass a model type")
    return str(model_type)

"""Which spec for this model and task."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from attrs import evolve

from onnxfn.architectures import ARCHITECTURES
from onnxfn.export.lookup.derive import (
    derive_from_config,
    derive_from_model,
    derive_from_sample,
    keeps_cache,
    loadable_tasks,
    loader_of,
)
from onnxfn.export.lookup.other_libraries import row_name
from onnxfn.specs.errors import InvalidSpec, UnknownName, listed, unknown
from onnxfn.specs.getters import snapshot
from onnxfn.specs.records import ExportSpec
from onnxfn.specs.tasks import DEFAULT_TASK, WITH_PAST, canonical, for_task, task_names

# How transformers ends the name of a class, and the task of what it so ends; the first that fits.
CLASS_SUFFIXES: Mapping[str, str] = MappingProxyType(
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
        "ForRNNT": "automatic-speech-recognition",
        "ForTDT": "automatic-speech-recognition",
        "ForSpeechToText": "automatic-speech-recognition",
        "ForTextToText": "text2text-generation",
        "ForImageClassification": "image-classification",
        "ForVideoClassification": "video-classification",
        "ForImageSuperResolution": "image-to-image",
        "Backbone": "feature-extraction",
        "ForMaskedImageModeling": "masked-im",
        "ForDepthEstimation": "depth-estimation",
        "ForObjectDetection": "object-detection",
        "ForSemanticSegmentation": "semantic-segmentation",
        "ForInstanceSegmentation": "image-segmentation",
        "ForImageSegmentation": "image-segmentation",
        "ForSegmentation": "image-segmentation",
        "ForImageTextRetrieval": "image-text-retrieval",
        "ForImageAndTextRetrieval": "image-text-retrieval",
        "ForUniversalSegmentation": "image-segmentation",
        "ForPoseEstimation": "keypoint-detection",
        "ForKeypointDetection": "keypoint-detection",
        "ForKeypointMatching": "keypoint-matching",
        "ForImageMatting": "image-matting",
        "ForNormalEstimation": "normal-estimation",
        "ForRetrieval": "feature-extraction",
        "ForPrediction": "time-series-forecasting",
        "ForTextToSpeech": "text-to-audio",
        "MarianMTModel": "text2text-generation",
        "EncoderDecoderModel": "text2text-generation",
        "Model": "feature-extraction",
    }
)

# What else classes of that name serve: those that hear speech, those that read an image, those that decide or speak,
# and some of these are decoders of text to a text alone. Bare models of two towers compare, detectors that read a text
# detect what it says, and a segmentation by what is there is one of an image.
OTHER_TASKS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "feature-extraction": ("zero-shot-image-classification", "reinforcement-learning", "text-to-audio"),
        "image-text-retrieval": ("zero-shot-image-classification",),
        "object-detection": ("zero-shot-object-detection",),
        "question-answering": ("document-question-answering", "visual-question-answering"),
        "text-classification": ("audio-classification",),
        "text2text-generation": ("automatic-speech-recognition", "image-to-text", "text-generation", "text-to-audio"),
        "semantic-segmentation": ("image-segmentation",),
    }
)


GENERATION_TASKS = (
    "text-generation",
    "text2text-generation",
    "automatic-speech-recognition",
    "image-to-text",
    "text-to-audio",
)
"""The tasks whose models write token by token, or frame by frame."""


def has_row(it: Any, architectures: Mapping[str, ExportSpec] = ARCHITECTURES) -> bool:
    """Whether a table speaks of a model type, a configuration or a model; a bare name is taken at its word."""
    return isinstance(it, str) or _model_type(it) in architectures


def spec_for(
    it: Any, task: str | None = None, *, architectures: Mapping[str, ExportSpec] = ARCHITECTURES
) -> ExportSpec:
    """The spec of a model type, a configuration or a model; for a task when one is given, or when a model has one.

    A model, or a configuration, that no row speaks of has a spec derived from it, which says so (`spec.derived`).
    Raises UnknownName for the bare name of a model type that has no row, and for a task that the row does not know.

    >>> spec_for("bert", task="fill-mask").task
    'fill-mask'
    """
    if not has_row(it, architectures):
        return derived(it, task)
    spec = _row(it, architectures)
    chosen = task or (None if isinstance(it, str) else _class_task_in(spec, it))
    return spec if chosen is None else for_task(spec, chosen)


def derived(
    it: Any, task: str | None = None, *, sample: Mapping[str, Any] | None = None, axes: Mapping[str, str] | None = None
) -> ExportSpec:
    """The spec of a model, or of a configuration, from itself: what it takes, gives and keeps; `spec.derived` says it.

    Any `nn.Module` has one when `sample` holds a tensor for each argument of its `forward`. `axes` says which of their
    axes move (`{"x": "batch_size _ width"}`, `_` being as in the sample); of the others only the first, `batch_size`.
    The model is run on dummies. InvalidSpec when it answers to nothing that is known.

    >>> import torch
    >>> derived(torch.nn.Linear(4, 2), sample={"input": torch.ones(3, 4)}).outputs[0].name
    'output'
    """
    if sample is not None:
        return derive_from_sample(it, sample, axes or {}, task)
    asked = task or _task_without_row(it)
    return derive_from_model(it, asked) if hasattr(it, "forward") else derive_from_config(it, asked)


def tasks_for(it: Any, *, architectures: Mapping[str, ExportSpec] = ARCHITECTURES) -> tuple[str, ...]:
    """The tasks of a model type, a configuration or a model; of one without a row, those of its classes.

    >>> tasks_for("splinter")
    ('feature-extraction', 'question-answering')
    """
    return task_names(_row(it, architectures)) if has_row(it, architectures) else loadable_tasks(it)


def checkpoint_task(it: Any, *, architectures: Mapping[str, ExportSpec] = ARCHITECTURES) -> str | None:
    """The task of a checkpoint, by what its configuration calls its class; with past where the row knows it so.

    None when the configuration tells none that the row knows. Who exports a model that writes, writes with a cache.
    Where there is no row `it` is the model, and knows it so when it keeps a cache.
    """
    if not has_row(it, architectures):
        own = _task_without_row(it)
        return f"{own}{WITH_PAST}" if own in GENERATION_TASKS and keeps_cache(it, own) else own
    known = tasks_for(it, architectures=architectures)
    told = next((task for task in served_tasks(task_of(it)) if task in known), None)
    return f"{told}{WITH_PAST}" if told in GENERATION_TASKS and f"{told}{WITH_PAST}" in known else told


def loader_spec(config: Any, task: str | None) -> ExportSpec:
    """How the checkpoint of a configuration without a row is loaded: for a task, or as the class that wrote it."""
    if task is not None:
        return ExportSpec(task=task, loader=loader_of(task))
    return ExportSpec(loader=next(iter(snapshot(config).get("architectures") or ()), None))


def task_of(it: Any) -> str | None:
    """The task that the name of a class tells: of a model, of a name, of what a configuration calls its architectures.

    >>> task_of("BertForMaskedLM"), task_of("BertForPreTraining")
    ('fill-mask', None)
    """
    told = it if isinstance(it, str) else _class_name(it)
    return next((task for ending, task in CLASS_SUFFIXES.items() if told and told.endswith(ending)), None)


def with_model_task(spec: ExportSpec, model: Any) -> ExportSpec:
    """The spec for the model's own task, when it has none yet; InvalidSpec when the model is of another task.

    A model whose class tells no task is for the one that the spec has; one that says its outputs needs no task.
    """
    own = task_of(model)
    if spec.task is None and spec.tasks:
        if own is None and spec.outputs:
            return evolve(spec, tasks=())
        if own is None and len(spec.tasks) == 1:
            return for_task(spec, spec.tasks[0].name)
        if own is None:
            raise InvalidSpec(
                f"{type(model).__name__} does not tell its task; say it: for_task(spec, task), "
                f"task one of {listed(task_names(spec))}"
            )
        return for_task(spec, next((task for task in served_tasks(own) if task in task_names(spec)), own))
    if (
        own is not None
        and spec.task is not None
        and canonical(spec.task).removesuffix(WITH_PAST) not in served_tasks(own)
    ):
        raise InvalidSpec(
            f"{type(model).__name__} is a model for {own}, not for {spec.task}; "
            f"load it with {spec.loader or 'a class for ' + spec.task}, or ask for {own}"
        )
    return spec


def _class_task_in(spec: ExportSpec, it: Any) -> str | None:
    return next((task for task in served_tasks(task_of(it)) if task in task_names(spec)), None)


def served_tasks(own: str | None) -> tuple[str, ...]:
    """The tasks that a class is for whose name tells one: `ForConditionalGeneration` is for several."""
    return () if own is None else (own, *OTHER_TASKS.get(own, ()))


def _row(it: Any, architectures: Mapping[str, ExportSpec]) -> ExportSpec:
    model_type = it if isinstance(it, str) else _model_type(it)
    if model_type not in architectures:
        raise UnknownName(f"{unknown('model type', model_type, architectures)}; {HOW_TO_DERIVE}")
    return architectures[model_type]


HOW_TO_DERIVE = "a spec is derived from a model or its configuration, not from a name: spec_for(model)"


def _task_without_row(it: Any) -> str:
    """The task of a model without a row. A class for several that is no encoder-decoder goes on from what it read."""
    own = task_of(it) or DEFAULT_TASK
    goes_on_alone = "text-generation" in OTHER_TASKS.get(own, ()) and not snapshot(it).get("is_encoder_decoder")
    return "text-generation" if goes_on_alone else own


def _class_name(it: Any) -> str | None:
    """Names tell tasks among the models of transformers; what another module is called tells nothing."""
    if hasattr(it, "forward"):
        return type(it).__name__ if hasattr(getattr(it, "config", None), "to_dict") else None
    return next(iter(snapshot(it).get("architectures") or ()), None)


def _model_type(it: Any) -> str:
    model_type = row_name(it) or snapshot(it).get("model_type")
    if not model_type:
        raise UnknownName(f"{type(it).__name__} has no model_type; compose a spec of your own, or pass a model type")
    return str(model_type)

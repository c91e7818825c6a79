"""Tasks of a spec, and the table of edits that a stored spec names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from attrs import evolve

from onnxfn.specs.algebra.compose import EMPTY, compose
from onnxfn.specs.algebra.facts import TARGET, TOKENS, gives, loads
from onnxfn.specs.algebra.spec import ExportSpec, Overlay
from onnxfn.specs.edits.as_edit import as_edit
from onnxfn.specs.edits.axes import with_axis
from onnxfn.specs.edits.behaviors import cross_attention, merged_decoder, part_alone, with_behavior
from onnxfn.specs.edits.caches import with_past, with_single_steps
from onnxfn.specs.edits.extra_outputs import with_known_output
from onnxfn.specs.edits.tensors import with_opset, with_output, with_shapes, with_tolerance
from onnxfn.specs.edits.token_embeddings import embedding_lookup, with_inputs_embeds
from onnxfn.specs.edits.whisper_for_genai import genai_decoder, genai_encoder
from onnxfn.specs.errors import InvalidSpec, refuse_unknown, shortened, unknown
from onnxfn.specs.records import Edit


def edited(spec: ExportSpec, edits: tuple[Edit, ...]) -> ExportSpec:
    """The spec after these edits, in order. UnknownName if one is not in EDITS, InvalidSpec for wrong arguments."""
    for edit in edits:
        refuse_unknown("edit", edit.function, EDITS)
        try:
            spec = EDITS[edit.function](spec, **dict(edit.arguments))
        except (TypeError, AttributeError) as problem:
            message = f"edit {edit.function!r} does not take the arguments {shortened(dict(edit.arguments))}: {problem}"
            raise InvalidSpec(message) from problem
    return spec


EDITS: Mapping[str, Callable[..., ExportSpec]] = MappingProxyType(
    {
        edit.__name__: edit
        for edit in (
            *(cross_attention, embedding_lookup, genai_decoder, genai_encoder, merged_decoder, part_alone),
            *(with_axis, with_behavior, with_inputs_embeds, with_known_output, with_opset, with_output),
            *(with_past, with_shapes, with_single_steps, with_tolerance),
        )
    }
)
"""Name -> function. Specs that were saved hold these names."""


def _usual(loader: str, **outputs: str) -> ExportSpec:
    """A spec of a task: the class that loads a model for it, and its usual outputs with their axes."""
    return compose(loads(loader), *(gives(name, axes) for name, axes in outputs.items()))


TASKS: Mapping[str, ExportSpec] = MappingProxyType(
    {
        "feature-extraction": _usual("AutoModel", last_hidden_state=f"{TOKENS} _"),
        "fill-mask": _usual("AutoModelForMaskedLM", logits=f"{TOKENS} _"),
        "text-classification": _usual("AutoModelForSequenceClassification", logits="batch_size _"),
        "token-classification": _usual("AutoModelForTokenClassification", logits=f"{TOKENS} _"),
        "text-generation": _usual("AutoModelForCausalLM", logits=f"{TOKENS} _"),
        "question-answering": _usual("AutoModelForQuestionAnswering", start_logits=TOKENS, end_logits=TOKENS),
        "text2text-generation": _usual("AutoModelForSeq2SeqLM", logits=f"{TARGET} _"),
        "automatic-speech-recognition": _usual("AutoModelForSpeechSeq2Seq", logits=f"{TARGET} _"),
        "image-to-text": _usual("AutoModelForImageTextToText", logits=f"{TARGET} _"),
        "image-text-to-text": loads("AutoModelForImageTextToText"),
        "audio-text-to-text": loads("AutoModelForMultimodalLM"),
        "any-to-any": loads("AutoModelForMultimodalLM"),
        "audio-classification": _usual("AutoModelForAudioClassification", logits="batch_size _"),
        "image-classification": _usual("AutoModelForImageClassification", logits="batch_size _"),
        "video-classification": _usual("AutoModelForVideoClassification", logits="batch_size _"),
        "masked-im": _usual("AutoModelForMaskedImageModeling", reconstruction="batch_size _ _ _"),
        "audio-frame-classification": _usual("AutoModelForAudioFrameClassification", logits="batch_size _ _"),
        "audio-xvector": _usual("AutoModelForAudioXVector", logits="batch_size _", embeddings="batch_size _"),
        "depth-estimation": _usual("AutoModelForDepthEstimation", predicted_depth="batch_size _ _"),
        "image-segmentation": loads("AutoModelForImageSegmentation"),
        "image-to-image": _usual("AutoModelForImageToImage", reconstruction="batch_size _ _ _"),
        "keypoint-detection": loads("AutoModelForKeypointDetection"),
        "keypoint-matching": loads("AutoModelForKeypointMatching"),
        "object-detection": _usual("AutoModelForObjectDetection", logits="batch_size _ _", pred_boxes="batch_size _ _"),
        "semantic-segmentation": _usual("AutoModelForSemanticSegmentation", logits="batch_size _ _ _"),
        "text-to-audio": loads("AutoModelForTextToWaveform"),
        "time-series-forecasting": loads("AutoModelForTimeSeriesPrediction"),
        "reinforcement-learning": loads("AutoModel"),
        "visual-question-answering": _usual("AutoModelForVisualQuestionAnswering", logits="batch_size _"),
        "document-question-answering": _usual(
            "AutoModelForDocumentQuestionAnswering", start_logits=TOKENS, end_logits=TOKENS
        ),
        "zero-shot-image-classification": loads("AutoModelForZeroShotImageClassification"),
        "zero-shot-object-detection": loads("AutoModelForZeroShotObjectDetection"),
        "text-recognition": _usual("AutoModelForTextRecognition", last_hidden_state=f"{TOKENS} _"),
        "multiple-choice": _usual("AutoModelForMultipleChoice", logits="batch_size num_choices"),
        "next-sentence-prediction": _usual("AutoModelForNextSentencePrediction", logits="batch_size _"),
        # A model without aggregation, such as a sum over the cells, has no second output.
        "table-question-answering": compose(
            _usual("AutoModelForTableQuestionAnswering", logits=TOKENS),
            gives("logits_aggregation", "batch_size _", when="num_aggregation_labels"),
        ),
        "text-encoding": _usual("AutoModelForTextEncoding", last_hidden_state=f"{TOKENS} _"),
        "backbone": loads("AutoBackbone"),
        "causal-image-modeling": _usual("AutoModel", logits=f"{TOKENS} _"),
        "decision": loads("AutoModelForDecision"),
        "image-matting": loads("AutoModelForImageMatting"),
        "normal-estimation": loads("AutoModelForNormalEstimation"),
        "pointmap-estimation": loads("AutoModelForPointmapEstimation"),
        "retrieval": loads("AutoModel"),
        "table-recognition": loads("AutoModelForTableRecognition"),
        "time-series-classification": loads("AutoModel"),
        "time-series-regression": loads("AutoModel"),
    }
)
"""Task -> its usual outputs, and the class of transformers that loads a model for it.

For some tasks with AutoModel, models have a head and transformers has no auto class: each model type has its own class
(export/derive/auto_tables.py).
"""

# The names that Optimum and the hub also use: optimum.exporters.tasks.TasksManager._SYNONYM_TASK_MAP (2.1.0), and two
# names of transformers' tables.
SYNONYMS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("default", "audio-tokenization", "image-feature-extraction"), "feature-extraction"),
        **dict.fromkeys(("mask-generation", "pretraining", "sentence-similarity"), "feature-extraction"),
        "masked-lm": "fill-mask",
        **dict.fromkeys(("sequence-classification", "zero-shot-classification"), "text-classification"),
        "causal-lm": "text-generation",
        **dict.fromkeys(("seq2seq-lm", "summarization", "translation"), "text2text-generation"),
        **dict.fromkeys(("audio-ctc", "speech2seq-lm"), "automatic-speech-recognition"),
        "pose-estimation": "keypoint-detection",
        "text-to-speech": "text-to-audio",
        "vision2seq-lm": "image-to-text",
    }
)
"""Synonym -> task."""

WITH_PAST = "-with-past"
"""The ending of the name of a task whose graph has a cache."""

DEFAULT_TASK = "feature-extraction"
"""The task of a spec for which none was chosen. It needs no head, so every checkpoint has weights for it."""


def canonical(task: str) -> str:
    """The name under which tables hold a task; a `-with-past` ending stays.

    Args:
        task: The name of a task, or a synonym.

    >>> canonical("masked-lm"), canonical("causal-lm-with-past")
    ('fill-mask', 'text-generation-with-past')
    """
    stem = task.removesuffix(WITH_PAST)
    return f"{SYNONYMS.get(stem, stem)}{task[len(stem) :]}"


def task_names(spec: ExportSpec) -> tuple[str, ...]:
    """The tasks of a spec."""
    return tuple(overlay.name for overlay in spec.tasks)


def tasked(name: str, *additions: ExportSpec | Edit, spec: ExportSpec = EMPTY) -> ExportSpec:
    """A spec of one task: its usual loader and outputs from TASKS, then specs, then edits.

    Args:
        name: The task, or a synonym; `-with-past` is a task of its own.
        additions: What the task adds to, or replaces in, its usual outputs; and edits that `for_task` applies last.
        spec: One more addition.

    >>> [overlay.name for overlay in tasked("masked-lm").tasks]
    ['fill-mask']
    """
    task = canonical(name)
    usual = TASKS.get(task.removesuffix(WITH_PAST), EMPTY)
    edits = tuple(each for each in additions if isinstance(each, Edit))
    specs = (each for each in additions if not isinstance(each, Edit))
    return ExportSpec(tasks=(Overlay(task, compose(usual, *specs, spec), edits),))


@as_edit
def for_task(spec: ExportSpec, task: str) -> ExportSpec:
    """The spec for one of its tasks: the task's overlay composed onto it, then the task's edits.

    Applying it twice is the same as applying it once.

    Args:
        spec: A spec with tasks.
        task: The name of a task, or a synonym.

    Raises:
        UnknownName: the spec has no such task.
        InvalidSpec: the spec is already for another task.

    >>> from onnxfn import text_encoder
    >>> [output.name for output in for_task(text_encoder, "question-answering").outputs]
    ['start_logits', 'end_logits']
    """
    name = canonical(task)
    if spec.task == name:
        return spec
    if spec.task is not None:
        raise InvalidSpec(f"this spec is already for {spec.task}; make another from the spec without a task")
    if name not in spec.tasks:
        raise unknown("task", task, task_names(spec), of=f"this spec of {spec.name}" if spec.name else "this spec")
    overlay = spec.tasks[name]
    return edited(evolve(compose(spec, overlay.spec), task=name), overlay.edits)


def for_some_task(spec: ExportSpec) -> ExportSpec:
    """The spec itself if it is for a task or has no tasks; else for feature-extraction, or for its first task."""
    if spec.task or not spec.tasks:
        return spec
    known = task_names(spec)
    return for_task(spec, DEFAULT_TASK if DEFAULT_TASK in known else known[0])

"""Tasks: what each gives, what loads a model for it, what else it is called."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from attrs import evolve

from onnxfn.specs.compose import compose
from onnxfn.specs.edits.table import edited
from onnxfn.specs.errors import InvalidSpec, unknown
from onnxfn.specs.facts import TARGET, TOKENS, gives
from onnxfn.specs.records import Edit, ExportSpec, Overlay


def loaded(loader: str) -> ExportSpec:
    """A spec that says which class of transformers loads a model for the task."""
    return ExportSpec(loader=loader)


TASKS: Mapping[str, ExportSpec] = MappingProxyType(
    {
        "feature-extraction": compose(loaded("AutoModel"), gives("last_hidden_state", f"{TOKENS} _")),
        "fill-mask": compose(loaded("AutoModelForMaskedLM"), gives("logits", f"{TOKENS} _")),
        "text-classification": compose(loaded("AutoModelForSequenceClassification"), gives("logits", "batch_size _")),
        "token-classification": compose(loaded("AutoModelForTokenClassification"), gives("logits", f"{TOKENS} _")),
        "text-generation": compose(loaded("AutoModelForCausalLM"), gives("logits", f"{TOKENS} _")),
        "question-answering": compose(
            loaded("AutoModelForQuestionAnswering"), gives("start_logits", TOKENS), gives("end_logits", TOKENS)
        ),
        "text2text-generation": compose(loaded("AutoModelForSeq2SeqLM"), gives("logits", f"{TARGET} _")),
        "automatic-speech-recognition": compose(loaded("AutoModelForSpeechSeq2Seq"), gives("logits", f"{TARGET} _")),
        "image-to-text": compose(loaded("AutoModelForImageTextToText"), gives("logits", f"{TARGET} _")),
        "audio-classification": compose(loaded("AutoModelForAudioClassification"), gives("logits", "batch_size _")),
        "image-classification": compose(loaded("AutoModelForImageClassification"), gives("logits", "batch_size _")),
        "video-classification": compose(loaded("AutoModelForVideoClassification"), gives("logits", "batch_size _")),
        "masked-im": compose(loaded("AutoModelForMaskedImageModeling"), gives("reconstruction", "batch_size _ _ _")),
        "audio-frame-classification": compose(
            loaded("AutoModelForAudioFrameClassification"), gives("logits", "batch_size _ _")
        ),
        "audio-xvector": compose(
            loaded("AutoModelForAudioXVector"), gives("logits", "batch_size _"), gives("embeddings", "batch_size _")
        ),
        "depth-estimation": compose(loaded("AutoModelForDepthEstimation"), gives("predicted_depth", "batch_size _ _")),
        "image-segmentation": loaded("AutoModelForImageSegmentation"),
        "image-to-image": compose(loaded("AutoModelForImageToImage"), gives("reconstruction", "batch_size _ _ _")),
        "keypoint-detection": loaded("AutoModelForKeypointDetection"),
        "keypoint-matching": loaded("AutoModelForKeypointMatching"),
        "object-detection": compose(
            loaded("AutoModelForObjectDetection"),
            gives("logits", "batch_size _ _"),
            gives("pred_boxes", "batch_size _ _"),
        ),
        "semantic-segmentation": compose(
            loaded("AutoModelForSemanticSegmentation"), gives("logits", "batch_size _ _ _")
        ),
        "text-to-audio": loaded("AutoModelForTextToWaveform"),
        "time-series-forecasting": loaded("AutoModelForTimeSeriesPrediction"),
        "reinforcement-learning": loaded("AutoModel"),
        "visual-question-answering": compose(
            loaded("AutoModelForVisualQuestionAnswering"), gives("logits", "batch_size _")
        ),
        "document-question-answering": compose(
            loaded("AutoModelForDocumentQuestionAnswering"), gives("start_logits", TOKENS), gives("end_logits", TOKENS)
        ),
        "zero-shot-image-classification": loaded("AutoModelForZeroShotImageClassification"),
        "zero-shot-object-detection": loaded("AutoModelForZeroShotObjectDetection"),
        "text-recognition": compose(
            loaded("AutoModelForTextRecognition"), gives("last_hidden_state", "batch_size sequence_length _")
        ),
        "multiple-choice": compose(loaded("AutoModelForMultipleChoice"), gives("logits", "batch_size num_choices")),
    }
)

# The names that Optimum and the hub also use: optimum.exporters.tasks.TasksManager._SYNONYM_TASK_MAP (2.1.0).
SYNONYMS: Mapping[str, str] = MappingProxyType(
    {
        "default": "feature-extraction",
        "image-feature-extraction": "feature-extraction",
        "mask-generation": "feature-extraction",
        "pretraining": "feature-extraction",
        "sentence-similarity": "feature-extraction",
        "masked-lm": "fill-mask",
        "sequence-classification": "text-classification",
        "zero-shot-classification": "text-classification",
        "causal-lm": "text-generation",
        "seq2seq-lm": "text2text-generation",
        "summarization": "text2text-generation",
        "translation": "text2text-generation",
        "audio-ctc": "automatic-speech-recognition",
        "speech2seq-lm": "automatic-speech-recognition",
        "text-to-speech": "text-to-audio",
        "vision2seq-lm": "image-to-text",
    }
)


WITH_PAST = "-with-past"
"""How the name of a task ends that takes and gives a cache."""

DEFAULT_TASK = "feature-extraction"
"""The task of a model without a head: heads change no weights of the model below, so every checkpoint has it."""


def canonical(task: str) -> str:
    """The name under which tables hold a task; a `-with-past` ending stays.

    >>> canonical("masked-lm"), canonical("causal-lm-with-past")
    ('fill-mask', 'text-generation-with-past')
    """
    stem = task.removesuffix("-with-past")
    return f"{SYNONYMS.get(stem, stem)}{task[len(stem) :]}"


def synonyms(task: str) -> tuple[str, ...]:
    """What else a task is called, by any of its names.

    >>> synonyms("text2text-generation"), synonyms("translation")
    (('seq2seq-lm', 'summarization', 'translation'), ('seq2seq-lm', 'summarization', 'text2text-generation'))
    """
    name = canonical(task)
    every = (name, *(other for other, meant in SYNONYMS.items() if meant == name))
    return tuple(sorted(other for other in every if other != task))


def task_names(spec: ExportSpec) -> tuple[str, ...]:
    """The tasks that a spec knows."""
    return tuple(overlay.name for overlay in spec.tasks)


def tasked(name: str, *edits: Edit, spec: ExportSpec | None = None) -> ExportSpec:
    """A spec that knows one task: what TASKS says of it, with `spec` laid over, and then edits."""
    task = canonical(name)
    told = TASKS.get(task.removesuffix(WITH_PAST), ExportSpec())
    overlay = Overlay(task, compose(told, spec or ExportSpec()), edits)
    return ExportSpec(tasks=(overlay,))


def for_task(spec: ExportSpec, task: str) -> ExportSpec:
    """The spec for one of its tasks: the task's overlay laid over it, then the task's edits.

    Doing it twice is doing it once. Raises UnknownName for a task that the spec does not know, InvalidSpec for a spec
    that already is for another task.
    """
    name = canonical(task)
    if spec.task == name:
        return spec
    if spec.task is not None:
        raise InvalidSpec(f"this spec is already for {spec.task}; make one for {name} from the spec without a task")
    overlay = next((one for one in spec.tasks if one.name == name), None)
    if overlay is None:
        raise unknown("task", task, task_names(spec), of=spec.name or "this spec")
    return edited(evolve(compose(spec, overlay.spec), task=name), overlay.edits)

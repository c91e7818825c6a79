"""Outputs of tasks that a row lacks: it has the heads of its family if transformers lists classes for them."""

from attrs import frozen

from onnxfn.architectures.families.audio import audio_frames, audio_transcription, mel_inputs, waveforms
from onnxfn.architectures.families.seq2seq import encoder_inputs
from onnxfn.architectures.families.text import text_inputs, text_tasks
from onnxfn.architectures.families.vision import DYNAMIC_MAPS, FIXED_MAP, dynamic_images, feature_maps, fixed_images
from onnxfn.specs.algebra.compose import compose, from_config
from onnxfn.specs.algebra.dummies import generates
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.edits.tensors import only_tasks
from onnxfn.specs.records import InputSpec
from onnxfn.specs.tasks.tasks import DEFAULT_TASK, task_names, tasked


@frozen
class Heads:
    """The heads of rows with the input of a family; `reads`: names that such a row reads from the configuration."""

    tensor: InputSpec
    tasks: ExportSpec
    behavior: str | None = None
    reads: tuple[str, ...] = ()


# Not feature-extraction: the row of a model that returns states names it.
text_heads: ExportSpec = compose(
    only_tasks(text_tasks, *(task for task in task_names(text_tasks) if task != DEFAULT_TASK)),
    *map(tasked, ("text-generation", "next-sentence-prediction", "table-question-answering", "causal-image-modeling")),
)

text_classification: ExportSpec = tasked(
    "text-classification",
    text_inputs,
    generates("token_ids", "ids_with_end", high=from_config("vocab_size"), end=from_config("eos_token_id")),
)
"""The task of encoder-decoders that classify a text by the state of its last end-of-sequence token: BART, T5."""

# The class gives the decoder the tokens of the encoder, one step later.
seq2seq_heads: ExportSpec = compose(
    *(tasked(task, text_inputs) for task in ("text-encoding", "question-answering", "token-classification")),
    text_classification,
)

audio_heads: ExportSpec = compose(
    audio_transcription, audio_frames, tasked("audio-classification"), tasked("audio-xvector")
)

HEADS: tuple[Heads, ...] = (
    Heads(text_inputs.inputs[0], text_heads),
    Heads(encoder_inputs.inputs[0], seq2seq_heads, behavior="encoder"),
    Heads(dynamic_images.inputs[0], compose(feature_maps("backbone", DYNAMIC_MAPS), tasked("image-classification"))),
    Heads(fixed_images.inputs[0], compose(feature_maps("backbone", FIXED_MAP), tasked("image-classification"))),
    Heads(waveforms.inputs[0], audio_heads, reads=("frames",)),
    Heads(mel_inputs.inputs[0], audio_heads, reads=("frames",)),
)
"""The heads of each family; the first that fits a row counts."""


def family_head(row: ExportSpec, task: str) -> ExportSpec | None:
    """The spec of a task, as the family of a row knows it. None if no family of the row has the task."""
    tasks = (heads.tasks for heads in HEADS if _fits(row, heads))
    head = next((overlay for spec in tasks for overlay in spec.tasks if overlay.name == task), None)
    return None if head is None else ExportSpec(tasks=(head,))


def _fits(row: ExportSpec, heads: Heads) -> bool:
    """Whether a row has the input of a family, with its axes, and reads the values that the family reads."""
    behaviors = {overlay.name: overlay.spec for overlay in row.parts.behaviors}
    owner = row if heads.behavior is None else behaviors.get(heads.behavior, ExportSpec())
    has_input = any((each.name, each.axes) == (heads.tensor.name, heads.tensor.axes) for each in owner.inputs)
    return has_input and {read.name for read in row.normalizer.reads}.issuperset(heads.reads)

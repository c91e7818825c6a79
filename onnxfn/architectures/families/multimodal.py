"""Families of models for text with images, videos or audio."""

from __future__ import annotations

from onnxfn.architectures.families.rows import sized_in
from onnxfn.architectures.families.text import text_cases, text_dummies, text_inputs, texts
from onnxfn.architectures.families.vision import fixed_images, image_features, image_inputs, image_reads
from onnxfn.specs.algebra.compose import EMPTY, compose, from_config, reads
from onnxfn.specs.algebra.dummies import generates
from onnxfn.specs.algebra.facts import TOKENS, always, gives, loads, runs, serves, takes
from onnxfn.specs.algebra.spec import Cache, ExportSpec
from onnxfn.specs.edits.behaviors import model_part
from onnxfn.specs.records import CacheRow, Source
from onnxfn.specs.tasks.tasks import tasked

TEXT_AXES = "text_batch_size sequence_length"
"""The axes of texts whose number may differ from the number of images."""

TEXT_MODEL, VISION_MODEL, AUDIO_MODEL, VIDEO_MODEL = "text_model", "vision_model", "audio_model", "video_model"
"""The names of the parts and of their files. transformers.js looks for these names."""


def embedding_output(name: str, batch: str) -> ExportSpec:
    """A spec of an output that is one vector per row of a batch, from `pooler_output` of the part."""
    return gives(name, f"{batch} _", path=("pooler_output",))


def layer_states(axes: str) -> ExportSpec:
    """A spec of the outputs `hidden_states.0`, ..., if the configuration has `output_hidden_states`."""
    layers = "num_layers + 1 if output_hidden_states else 0"
    name, path = "hidden_states.{layer}", ("hidden_states", "{layer}")
    return ExportSpec(
        cache=Cache(rows=(CacheRow("hidden_states", name, name, axes, axes, path, path, layers),), past="outputs")
    )


text_batch_inputs: ExportSpec = compose(
    takes("input_ids", TEXT_AXES, "token_ids"), takes("attention_mask", TEXT_AXES, "padding_mask")
)
"""The inputs `input_ids` and `attention_mask` of texts whose number may differ from the number of images."""

text_with_end: ExportSpec = generates(
    "token_ids",
    "ids_with_end",
    high=from_config("vocab_size"),
    end=from_config("text_config.eos_token_id or eos_token_id"),
)
"""The dummy inputs of texts for models that pool at the end token: each text has it once, at its end."""

text_batch_cases: ExportSpec = compose(
    text_cases, sized_in("one right-padded left-padded", text_batch_size=(2, 3, 1, 5))
)
"""The cases of the check for texts and images.

The trace has 2 of each. The cases have more texts than images, or fewer.
"""

text_tower: ExportSpec = compose(runs("self.get_text_features"), embedding_output("text_embeds", "text_batch_size"))
vision_tower: ExportSpec = compose(runs("self.get_image_features"), embedding_output("image_embeds", "batch_size"))
audio_tower: ExportSpec = compose(runs("self.get_audio_features"), embedding_output("audio_embeds", "batch_size"))

video_tower: ExportSpec = compose(
    runs("self.get_video_features"), gives("video_embeds", "batch_size _ _", path=("pooler_output",))
)
"""The towers of contrastive models: the module that a part runs, and the output of the part, its embeddings.

Each output is one vector per row, except `video_embeds`, which has one more axis.
"""


def similarity_outputs(other: str, batch: str = "batch_size") -> ExportSpec:
    """A spec of the similarities and embeddings of texts and an `other`: image or audio, with the axis `batch`."""
    return compose(
        gives(f"logits_per_{other}", f"{batch} text_batch_size"),
        gives("logits_per_text", f"text_batch_size {batch}"),
        gives("text_embeds", "text_batch_size _"),
        gives(f"{other}_embeds", f"{batch} _"),
    )


def feature_outputs(*specs: ExportSpec) -> ExportSpec:
    """A spec of the task feature-extraction with the outputs of `specs` only: `last_hidden_state` is not implied."""
    return serves("feature-extraction", loads("AutoModel"), *specs)


def contrastive_tasks(*inputs: ExportSpec, other: str = "image", batch: str = "batch_size") -> ExportSpec:
    """A spec of the two tasks of contrastive models, with the outputs of `similarity_outputs`."""
    both = compose(*inputs, similarity_outputs(other, batch))
    return compose(feature_outputs(both), tasked("zero-shot-image-classification", both))


two_towers: ExportSpec = compose(
    text_dummies, reads(vocab_size="text_config.vocab_size"), text_batch_cases, image_reads(), always(return_dict=True)
)
"""`text_and_vision` without inputs and tasks, for models that have others: SigLIP, GroupViT, X-CLIP."""

text_and_vision: ExportSpec = compose(
    two_towers,
    model_part(VISION_MODEL, image_inputs(), vision_tower),
    model_part(TEXT_MODEL, text_batch_inputs, text_tower),
    contrastive_tasks(image_inputs(), text_batch_inputs),
)
"""Models that compare texts with images: CLIP, AltCLIP, BLIP.

Inputs: `input_ids` and `attention_mask`, `[text_batch_size, sequence_length]`; `pixel_values`,
`[batch_size, num_channels=, image_height=, image_width=]`.
Tasks: feature-extraction and zero-shot-image-classification. `split` writes one file for each of the two parts.
"""

text_with_image: ExportSpec = compose(texts, text_inputs, image_inputs())
"""Models for one text and one image: FLAVA, BridgeTower. A row adds tasks, and the keys of the sizes."""

vision_model: ExportSpec = compose(fixed_images, image_features("batch_size _ _"))
"""The vision model of a contrastive model, as a separate model: CLIPVisionModel, BlipVisionModel."""

text_model_inputs: ExportSpec = compose(
    texts, reads(num_layers="num_hidden_layers"), takes("input_ids", TOKENS, "token_ids")
)
"""`text_model` without a task, for models with other outputs. Its texts have no padding: there is no mask."""

text_model: ExportSpec = compose(text_model_inputs, tasked("feature-extraction"))
"""The text model of a contrastive model, as a model of its own: CLIPTextModel. `text_inputs` add a mask."""


def pooler_output(*, when: Source | None = None, loader: str | None = None) -> ExportSpec:
    """A spec of the output `pooler_output` of feature-extraction: one vector per row. `when`: see `gives`."""
    model_class = EMPTY if loader is None else loads(loader)
    return serves("feature-extraction", model_class, gives("pooler_output", "batch_size _", when=when))

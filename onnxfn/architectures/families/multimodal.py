"""Models that read and see, and those that read and hear: a text and an image in one space."""

from __future__ import annotations

from onnxfn.architectures.families.text import text_cases, text_dummies, text_inputs
from onnxfn.specs.compose import EMPTY, compose
from onnxfn.specs.dummies import generates, sized
from onnxfn.specs.edits.behaviors import model_part
from onnxfn.specs.facts import TOKENS, always, case, gives, loads, runs, serves, takes
from onnxfn.specs.getters import constant, either, from_config, if_else, item, reads, total
from onnxfn.specs.records import CacheRow, Source
from onnxfn.specs.spec import Cache, ExportSpec
from onnxfn.specs.tasks import tasked

TEXT_AXES = "text_batch_size sequence_length"
"""The axes of texts that stand beside images, of which there may be more or fewer."""

TEXT_MODEL, VISION_MODEL, AUDIO_MODEL, VIDEO_MODEL = "text_model", "vision_model", "audio_model", "video_model"
"""What the parts are called, and their files: transformers.js looks for these."""


def image_reads(at: str = "vision_config.") -> ExportSpec:
    """A spec that says where a configuration keeps the size of an image: below `at`."""
    return reads(
        num_channels=either(f"{at}num_channels", constant(3)),
        image_height=either(item(f"{at}image_size", 0), f"{at}image_size"),
        image_width=either(item(f"{at}image_size", 1), f"{at}image_size"),
    )


def image_inputs(batch: str = "batch_size") -> ExportSpec:
    """A spec of the images of one size that go in, as many as the axis `batch` says."""
    return takes("pixel_values", f"{batch} num_channels= image_height= image_width=", "pixels", kind="float")


def embedding_output(name: str, batch: str) -> ExportSpec:
    """A spec of one output, a vector a row: `pooler_output` is what the part that runs pools."""
    return gives(name, f"{batch} _", path=("pooler_output",))


def layer_states(axes: str) -> ExportSpec:
    """A spec of what comes out of each layer, where the configuration says `output_hidden_states`."""
    every = if_else("output_hidden_states", total("num_layers", constant(1)), constant(0))
    name, found = "hidden_states.{layer}", ("hidden_states", "{layer}")
    return ExportSpec(
        cache=Cache(rows=(CacheRow("hidden_states", name, name, axes, axes, found, found, every),), past="outputs")
    )


text_batch_inputs = compose(
    takes("input_ids", TEXT_AXES, "token_ids"), takes("attention_mask", TEXT_AXES, "padding_mask")
)
"""Texts and the mask that says which of their tokens are padding."""

text_with_end = generates(
    "token_ids", "ids_with_end", high=from_config("vocab_size"), end=either("text_config.eos_token_id", "eos_token_id")
)
"""Texts that end with the token at which a model looks, and have it nowhere else."""

# Traced at two of each; tried with fewer images than texts, and with more.
text_batch_cases = compose(
    text_cases,
    sized(text_batch_size=2),
    case("one", sized(text_batch_size=3)),
    case("right-padded", sized(text_batch_size=1)),
    case("left-padded", sized(text_batch_size=5)),
)

text_tower = compose(runs("towers.text_model"), embedding_output("text_embeds", "text_batch_size"))
vision_tower = compose(runs("towers.vision_model"), embedding_output("image_embeds", "batch_size"))
audio_tower = compose(runs("towers.audio_model"), embedding_output("audio_embeds", "batch_size"))

video_tower = compose(
    runs("towers.video_model"),
    gives("video_embeds", "batch_size _ _", path=("pooler_output",)),
)


def similarity_outputs(other: str, batch: str = "batch_size") -> ExportSpec:
    """A spec of how alike each text and each `other` are, and of both in the space that they share."""
    return compose(
        gives(f"logits_per_{other}", f"{batch} text_batch_size"),
        gives("logits_per_text", f"text_batch_size {batch}"),
        gives("text_embeds", "text_batch_size _"),
        gives(f"{other}_embeds", f"{batch} _"),
    )


def feature_outputs(*specs: ExportSpec) -> ExportSpec:
    """A spec of feature-extraction alone, whose outputs are all said here: no `last_hidden_state` unless it is."""
    return serves("feature-extraction", loads("AutoModel"), *specs)


def contrastive_tasks(*inputs: ExportSpec, other: str = "image", batch: str = "batch_size") -> ExportSpec:
    """A spec of the tasks of a model that compares texts with images."""
    both = compose(*inputs, similarity_outputs(other, batch))
    return compose(feature_outputs(both), tasked("zero-shot-image-classification", spec=both))


two_towers = compose(
    text_dummies,
    reads(vocab_size="text_config.vocab_size"),
    text_batch_cases,
    generates("pixels", "normal"),
    image_reads(),
    always(return_dict=True),
)
"""A model of texts and one of images in one: where their configurations keep what."""

text_and_vision = compose(
    two_towers,
    model_part(VISION_MODEL, image_inputs(), vision_tower),
    model_part(TEXT_MODEL, text_batch_inputs, text_tower),
    contrastive_tasks(image_inputs(), text_batch_inputs),
)
"""Models that compare texts with images: CLIP and those like it. `split` makes a file of each of their two parts."""


text_with_image = compose(
    text_dummies,
    text_cases,
    generates("pixels", "normal"),
    always(return_dict=True),
    text_inputs,
    image_inputs(),
)
"""Texts with an image each. Where their configurations keep what is for a row to say."""


def vision_dummies(*tasks: ExportSpec) -> ExportSpec:
    """A spec of a model of images alone, for these tasks."""
    return compose(sized(batch_size=2), generates("pixels", "normal"), always(return_dict=True), *tasks)


vision_model = compose(
    vision_dummies(tasked("feature-extraction", spec=gives("last_hidden_state", "batch_size _ _"))),
    image_reads(""),
    image_inputs(),
)
"""The part that sees, as a model of its own."""

text_model_inputs = compose(
    text_dummies,
    text_cases,
    reads(vocab_size="vocab_size", num_layers="num_hidden_layers"),
    always(return_dict=True),
    takes("input_ids", TOKENS, "token_ids"),
)
"""The part that reads, as a model of its own, of texts without padding; what it gives is for a task to say."""

text_model = compose(text_model_inputs, tasked("feature-extraction"))
"""The part that reads, as a model of its own."""


def pooler_output(*, when: Source | None = None, loader: str | None = None) -> ExportSpec:
    """A spec of one more output for feature-extraction, each row as one vector, and maybe of what loads the model."""
    loading = EMPTY if loader is None else loads(loader)
    return serves("feature-extraction", loading, gives("pooler_output", "batch_size _", when=when))

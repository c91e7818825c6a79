"""Where a plan differs from Optimum's on purpose: models of text and images."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import evolve
from corrected.records import AbsentTensors, AddedInput, CorrectedSize, Correction, WithoutModel

from onnxfn.specs.edits.behaviors import split, with_behavior
from onnxfn.specs.records import File
from onnxfn.specs.spec import ExportSpec, Parts

FIXED = "the position embeddings are for images of one size, and the weights fix the number of channels"
BATCH = "the output has one row per image, and pixel_values calls the number of images batch_size"
OF_TEXTS = "the output has one row per text of the input"

CONTRASTIVE = ("chinese_clip", "clip", "groupvit", "metaclip_2", "owlv2", "owlvit")
WITH_IMAGES = (*CONTRASTIVE, "clip_vision_model", "layoutlmv3", "siglip", "siglip_vision_model")
OWLS = ("owlv2", "owlvit")
IMAGE_OUTPUTS = ("image_embeds", "logits_per_image")

CORRECTIONS: tuple[Correction, ...] = (
    *(
        Correction(model_type, ("pixel_values",), axis, optimum, ours=None, why=FIXED)
        for model_type in WITH_IMAGES
        for axis, optimum in ((1, "num_channels"), (2, "height"), (3, "width"))
    ),
    *(
        Correction(model_type, names, axis, optimum="image_batch_size", ours="batch_size", why=BATCH)
        for model_type in CONTRASTIVE
        for axis, names in ((0, IMAGE_OUTPUTS), (1, ("logits_per_text",)))
    ),
    Correction("metaclip_2", ("text_embeds",), 0, optimum="batch_size", ours="text_batch_size", why=OF_TEXTS),
    Correction(
        "siglip-text-with-projection",
        ("text_embeds",),
        axis=1,
        optimum="sequence_length",
        ours=None,
        why="a text has one embedding, whose size is fixed",
    ),
    *(
        Correction("layoutlmv3", names, 1, "sequence_length", f"sequence_length + {14 * 14 + 1}", why)
        for names, why in (
            (("last_hidden_state",), "the states of the image patches follow those of the tokens"),
            (("start_logits", "end_logits"), "there is a logit per image patch, as per token"),
        )
    ),
    Correction(
        "visual_bert",
        ("visual_embeds",),
        axis=2,
        optimum="visual_embedding_dim",
        ours=None,
        why="the size of the embedding of a region is fixed by the weights",
    ),
    *(
        Correction(model_type, names, axis, optimum, ours, why)
        for model_type in OWLS
        for names, axis, optimum, ours, why in (
            (("logits", "pred_boxes"), 0, "image_batch_size", "batch_size", BATCH),
            (("pred_boxes",), 1, "num_boxes", None, "there is one box per patch, and images have one size"),
        )
    ),
)
CORRECTIONS = (
    *CORRECTIONS,
    *(
        Correction(model_type, ("text_embeds",), axis, optimum, ours, why, task)
        for model_type in OWLS
        for task, axis, optimum, ours, why in (
            ("feature-extraction", 1, "max_text_queries", None, "each text has one embedding, whatever its image"),
            (
                "zero-shot-object-detection",
                0,
                "text_batch_size",
                "batch_size",
                "the embeddings of texts are grouped by image",
            ),
        )
    ),
)
WITHOUT_MODEL: tuple[WithoutModel, ...] = ()
ADDED_INPUTS: tuple[AddedInput, ...] = ()
ABSENT_TENSORS: tuple[AbsentTensors, ...] = ()
CORRECTED_SIZES: tuple[CorrectedSize, ...] = (
    *(
        CorrectedSize(
            model_type, "default", ("input_ids", "attention_mask"), 0, 2, 4, "the dummies have two texts per image"
        )
        for model_type in OWLS
    ),
    CorrectedSize(
        "colpali",
        "default",
        ("input_ids", "attention_mask"),
        axis=1,
        optimum=272,
        ours=212,
        why="an image of 14 by 14 patches takes 196 tokens, whatever num_image_tokens is",
    ),
)


def single_part(part: str) -> Callable[[ExportSpec], ExportSpec]:
    """The edit that exports one part only, as `model.onnx`: Optimum writes each variant to a file of that name."""
    return lambda spec: evolve(with_behavior(spec, part), parts=Parts(files=(File("model"),)))


VARIANTS: Mapping[tuple[str, str], Callable[[ExportSpec], ExportSpec]] = {
    ("colpali", "text"): single_part("text_model"),
    ("metaclip_2", "split"): split,
}
"""(model type, variant of Optimum that is not its default) -> the edit that exports the same files."""

"""Where a plan differs from Optimum's on purpose: models that read and see."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import evolve
from corrected.records import Added, Correction, Excess, NeverMade, Resized

from onnxfn.specs.edits.behaviors import split, with_behavior
from onnxfn.specs.records import File
from onnxfn.specs.spec import ExportSpec, Parts

FIXED = "the model has places for the patches of one size of image, and weights for its channels"
BATCH = "the images of an answer are the images of the question, and pixel_values calls their number batch_size"
OF_TEXTS = "the texts of an answer are the texts of the question"

COMPARED = ("chinese_clip", "clip", "groupvit", "metaclip_2", "owlv2", "owlvit")
SEEING = (*COMPARED, "clip_vision_model", "layoutlmv3", "siglip", "siglip_vision_model")
OWLS = ("owlv2", "owlvit")
OF_IMAGE = ("image_embeds", "logits_per_image")

CORRECTIONS: tuple[Correction, ...] = (
    *(
        Correction(model_type, ("pixel_values",), axis, optimum, ours=None, why=FIXED)
        for model_type in SEEING
        for axis, optimum in ((1, "num_channels"), (2, "height"), (3, "width"))
    ),
    *(
        Correction(model_type, names, axis, optimum="image_batch_size", ours="batch_size", why=BATCH)
        for model_type in COMPARED
        for axis, names in ((0, OF_IMAGE), (1, ("logits_per_text",)))
    ),
    Correction("metaclip_2", ("text_embeds",), 0, optimum="batch_size", ours="text_batch_size", why=OF_TEXTS),
    Correction(
        "siglip-text-with-projection",
        ("text_embeds",),
        axis=1,
        optimum="sequence_length",
        ours=None,
        why="a text is one vector, whose size the model fixes",
    ),
    *(
        Correction("layoutlmv3", names, 1, "sequence_length", f"sequence_length + {14 * 14 + 1}", why)
        for names, why in (
            (("last_hidden_state",), "after the words come the patches of the image"),
            (("start_logits", "end_logits"), "the patches of the image are judged as words are"),
        )
    ),
    Correction(
        "visual_bert",
        ("visual_embeds",),
        axis=2,
        optimum="visual_embedding_dim",
        ours=None,
        why="a region is as many numbers as the model has weights for",
    ),
    *(
        Correction(model_type, names, axis, optimum, ours, why)
        for model_type in OWLS
        for names, axis, optimum, ours, why in (
            (("logits", "pred_boxes"), 0, "image_batch_size", "batch_size", BATCH),
            (("pred_boxes",), 1, "num_boxes", None, "there is a box a patch, and the image is of one size"),
        )
    ),
)
CORRECTIONS = (
    *CORRECTIONS,
    *(
        Correction(model_type, ("text_embeds",), axis, optimum, ours, why, task)
        for model_type in OWLS
        for task, axis, optimum, ours, why in (
            ("feature-extraction", 1, "max_text_queries", None, "here each text is one vector, whatever its image"),
            ("zero-shot-object-detection", 0, "text_batch_size", "batch_size", "texts are told apart by their image"),
        )
    ),
)
NEVER_MADE: tuple[NeverMade, ...] = ()
INPUTS_ADDED: tuple[Added, ...] = ()
TENSORS_DROPPED: tuple[Excess, ...] = ()
SIZES_CORRECTED: tuple[Resized, ...] = (
    *(
        Resized(model_type, "default", ("input_ids", "attention_mask"), 0, 2, 4, "two texts are traced for each image")
        for model_type in OWLS
    ),
    Resized(
        "colpali",
        "default",
        ("input_ids", "attention_mask"),
        axis=1,
        optimum=272,
        ours=212,
        why="an image of 14 by 14 patches stands for 196 tokens, whatever num_image_tokens says",
    ),
)


def alone(part: str) -> Callable[[ExportSpec], ExportSpec]:
    """The edit that makes one part the model: Optimum has a file of each variant, and calls it so."""
    return lambda spec: evolve(with_behavior(spec, part), parts=Parts(files=(File("model"),)))


VARIANTS: Mapping[tuple[str, str], Callable[[ExportSpec], ExportSpec]] = {
    ("colpali", "text"): alone("text_model"),
    ("metaclip_2", "split"): split,
}
"""What Optimum writes when asked for another variant than its own choice, and the edit that says so here."""

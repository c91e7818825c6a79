"""Models that also draw, by tokens of images: their parts under the names of transformers.js (Janus)."""

from __future__ import annotations

from attrs import evolve

from onnxfn.architectures.families.sizes import sized_in
from onnxfn.architectures.families.text import text_dummies
from onnxfn.specs.algebra.compose import compose, from_config, reads
from onnxfn.specs.algebra.dummies import generates
from onnxfn.specs.algebra.facts import TOKENS, gives, patched, runs, takes
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.edits.behaviors import model_part, written_as
from onnxfn.specs.records import Edit, File

SIZES = sized_in("one several", batch_size=(2, 1, 3), sequence_length=(12, 1, 17))

TOKENS_AND_IMAGES = compose(
    text_dummies,
    SIZES,
    takes("input_ids", TOKENS, "token_ids"),
    takes("pixel_values", "num_texts num_images num_channels= image_height= image_width=", "pixels", kind="float"),
    patched(
        "transformers.models.janus.modeling_janus:JanusVisionEmbeddings.forward",
        by="janus.patch_embeddings",
        why="infers the size of an axis, which is not possible without images",
    ),
    takes("images_seq_mask", TOKENS, "marks", kind="bool"),
    generates("pixels", "normal"),
    generates("marks", "integers", high=2),
    sized_in("one several", num_texts=(2, 1, 3), num_images=(3, 1, 2)),
    gives("inputs_embeds", f"{TOKENS} _"),
)
"""Tokens and images, and which tokens are of an image: as transformers.js gives them, of no image too.

It also gives a mask of features (`images_emb_mask`), which is true for all.
"""

STATES = compose(
    SIZES,
    takes("last_hidden_state", f"{TOKENS} embedding_width=", "states", kind="float"),
    generates("states", "normal"),
    gives("logits", f"{TOKENS} _"),
)
"""States of the language model, and the logits of a head."""

CODES = compose(
    reads(num_codes="vq_config.num_embeddings", codes_per_image="vq_config.num_patches ** 2"),
    generates("codes", "integers", high=from_config("num_codes")),
)
"""Codes of images."""

PARTS: tuple[tuple[str, str, ExportSpec], ...] = (
    ("prepare_inputs_embeds", "prepared_embeddings", TOKENS_AND_IMAGES),
    ("lm_head", "lm_head", STATES),
    ("gen_head", "gen_head", STATES),
    (
        "gen_img_embeds",
        "gen_img_embeds",
        compose(SIZES, CODES, takes("image_ids", TOKENS, "codes"), gives("inputs_embeds", f"{TOKENS} _")),
    ),
    (
        "image_decode",
        "image_decode",
        compose(
            SIZES,
            CODES,
            takes("generated_tokens", "batch_size codes_per_image=", "codes"),
            gives("decoded_image", "batch_size _ _ _"),
        ),
    ),
)
"""The file of each part, the function of `wrappers/image_tokens.py` that it runs, and its inputs and outputs."""

LANGUAGE_MODEL = "language_model"


def drawing_parts(decoder: ExportSpec, *specs: ExportSpec) -> ExportSpec:
    """A spec of the files of a model that draws.

    Args:
        decoder: The spec of the model that takes embeddings and gives logits; its part gives states instead.
        specs: What holds for all parts: where the configuration has its values.
    """
    states = evolve(decoder, outputs=gives("last_hidden_state", f"{TOKENS} _").outputs)
    names = [PARTS[0][0], LANGUAGE_MODEL, *(name for name, _, _ in PARTS[1:])]
    return compose(
        *(model_part(name, *specs, runs(f"image_tokens.{function}"), tensors) for name, function, tensors in PARTS),
        model_part(LANGUAGE_MODEL, *specs, states, runs(f"image_tokens.{LANGUAGE_MODEL}")),
        written_as(*(File(name, (Edit("part_alone", {"part": name}),)) for name in names)),
    )

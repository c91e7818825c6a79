"""Models that also draw, by tokens of images: their parts under the names of transformers.js (Janus).

The language model writes states. One head makes tokens of texts of them, another one codes of images. A table embeds
codes for the next step, and a decoder turns all codes of an image into pixels.

Source: "Janus: Decoupling Visual Encoding for Unified Multimodal Understanding and Generation", arXiv 2410.13848.
"""

from attrs import evolve

from onnxfn.architectures.families.rows import sized_in
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
    takes("pixel_values", "num_texts num_images num_channels= image_height= image_width=", "normal", kind="float"),
    patched(
        "transformers.models.janus.modeling_janus:JanusVisionEmbeddings.forward",
        by="image_sizes.patch_embeddings",
        why="infers the size of an axis, which is not possible without images",
    ),
    takes("images_seq_mask", TOKENS, "marks", kind="bool"),
    generates("marks", "integers", high=2),
    sized_in("one several", num_texts=(2, 1, 3), num_images=(3, 1, 2)),
    gives("inputs_embeds", f"{TOKENS} _"),
)
"""Tokens and images, and which tokens are of an image: as transformers.js gives them, of no image too.

It also gives a mask of features (`images_emb_mask`), which is true for all.
"""


def head_inputs(argument: str) -> ExportSpec:
    """A spec of the states of the language model as this argument of a head, and of its logits."""
    return compose(
        SIZES,
        takes("last_hidden_state", f"{TOKENS} embedding_width=", "normal", kind="float", path=(argument,)),
        gives("logits", f"{TOKENS} _"),
    )


CODES = compose(
    SIZES,
    reads(num_codes="vq_config.num_embeddings", codes_per_image="vq_config.num_patches ** 2"),
    generates("codes", "integers", high=from_config("num_codes")),
)
"""Codes of images."""

PARTS: tuple[tuple[str, str, ExportSpec], ...] = (
    ("prepare_inputs_embeds", "image_tokens.prepared_embeddings", TOKENS_AND_IMAGES),
    ("lm_head", "self.lm_head", head_inputs("input")),
    ("gen_head", "self.model.generation_head", head_inputs("hidden_states")),
    (
        "gen_img_embeds",
        "self.prepare_embeddings_for_image_generation",
        compose(CODES, takes("image_ids", TOKENS, "codes", path=("inputs",)), gives("inputs_embeds", f"{TOKENS} _")),
    ),
    (
        "image_decode",
        "self.model.vqmodel.decode",
        compose(
            CODES,
            takes("generated_tokens", "batch_size codes_per_image=", "codes", path=("image_tokens",)),
            gives("decoded_image", "batch_size _ _ _"),
        ),
    ),
)
"""The file of each part, what it runs, and its inputs and outputs."""

LANGUAGE_MODEL = "language_model"


def drawing_parts(decoder: ExportSpec, *specs: ExportSpec) -> ExportSpec:
    """A spec of the files of a model that draws; the part of `decoder` gives states in place of logits."""
    states = evolve(decoder, outputs=gives("last_hidden_state", f"{TOKENS} _").outputs)
    names = [PARTS[0][0], LANGUAGE_MODEL, *(name for name, _, _ in PARTS[1:])]
    return compose(
        *(model_part(name, *specs, runs(submodule), tensors) for name, submodule, tensors in PARTS),
        model_part(LANGUAGE_MODEL, *specs, states, runs(f"self.model.{LANGUAGE_MODEL}")),
        written_as(*(File(name, (Edit("part_alone", {"part": name}),)) for name in names)),
    )

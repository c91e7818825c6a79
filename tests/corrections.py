"""Where a plan differs from Optimum's on purpose: model type -> (what, Optimum's, ours, why)."""

from __future__ import annotations

from attrs import frozen


@frozen
class Correction:
    """One difference: an axis of these tensors, in every task of the model type; None is an axis that does not move."""

    model_type: str
    tensors: tuple[str, ...]
    axis: int
    optimum: str | None
    ours: str | None
    why: str


CORRECTIONS = (
    Correction(
        model_type="markuplm",
        tensors=("xpath_subs_seq", "xpath_tags_seq"),
        axis=2,
        optimum="max_depth",
        ours=None,
        why="the model reads exactly config.max_depth steps of each path, so the axis cannot move",
    ),
)


@frozen
class Moved:
    """An axis that Optimum fixes in the decoder that takes a past, and that moves here: its name, its dummy's size."""

    optimum: str
    ours: str
    size: int
    why: str


ONE_TOKEN = Moved(
    optimum="1",
    ours="decoder_sequence_length",
    size=16,
    why="a decoder that takes a past reads any number of next tokens, so a draft can be verified in one call",
)


@frozen
class Added:
    """An input that Optimum leaves out, last in order, in these tasks of these model types."""

    name: str
    model_types: tuple[str, ...]
    tasks: tuple[str, ...]
    axes: tuple[str, ...]
    why: str


INPUTS_ADDED = (
    Added(
        name="position_ids",
        model_types=("gemma", "gemma2", "gemma3", "gemma3_text", "gpt_oss", "nemotron"),
        tasks=(
            "feature-extraction",
            "feature-extraction-with-past",
            "text-generation",
            "text-generation-with-past",
        ),
        axes=("batch_size", "sequence_length"),
        why="forward takes position_ids, and without them a left-padded batch is numbered from its padding",
    ),
)


@frozen
class Resized:
    """An axis that does not move and that Optimum gives another size, in the cache of a preset of a model type."""

    model_type: str
    preset: str
    endings: tuple[str, ...]
    axis: int
    optimum: int
    ours: int
    why: str


BOTH = (".key", ".value")
LATENT = "transformers 5 keeps the latent that keys and values are made of, and the rotated part that all heads share"

OF_THE_DECODER = (".encoder.key", ".encoder.value", ".0.key", ".0.value", ".1.key", ".1.value")
HEADS = "the decoder's cross-attention, and a decoder alone, has the decoder's heads and not the encoder's"

SIZES_CORRECTED = (
    Resized("deepseek_v3", "default", BOTH, axis=1, optimum=128, ours=1, why=LATENT),
    Resized("deepseek_v3", "default", (".key",), axis=3, optimum=192, ours=512, why=LATENT),
    Resized("deepseek_v3", "default", (".value",), axis=3, optimum=128, ours=64, why=LATENT),
    Resized("bart", "asymmetric", OF_THE_DECODER, axis=1, optimum=8, ours=4, why=HEADS),
    Resized("bart", "asymmetric", OF_THE_DECODER, axis=3, optimum=128, ours=256, why=HEADS),
    Resized(
        model_type="falcon",
        preset="new_decoder_architecture",
        endings=BOTH,
        axis=1,
        optimum=8,
        ours=71,
        why="FalconAttention.forward repeats keys and values for each query before it keeps them",
    ),
)

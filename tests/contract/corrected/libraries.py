"""Where a plan differs from Optimum's on purpose: models of timm, sentence-transformers and diffusers."""

from __future__ import annotations

from corrected.records import Added, Correction, Excess, Left, NeverMade, Resized

SEEN = "sentence_transformers.clip"

CORRECTIONS: tuple[Correction, ...] = (
    Correction(
        model_type="timm.default-timm-config",
        tensors=("pixel_values",),
        axis=1,
        optimum="num_channels",
        ours=None,
        why="a model has weights for the channels of its images",
    ),
    *(
        Correction(SEEN, ("pixel_values",), axis, optimum, ours=None, why="the model has places for one size of image")
        for axis, optimum in ((1, "num_channels"), (2, "height"), (3, "width"))
    ),
    Correction(
        SEEN,
        ("image_embeds",),
        axis=0,
        optimum="image_batch_size",
        ours="batch_size",
        why="the images are called so where they go in",
    ),
    Correction(
        model_type="diffusers.clip-text-with-projection",
        tensors=("text_embeds",),
        axis=1,
        optimum="sequence_length",
        ours=None,
        why="text_embeds is of rank 2: one vector a text",
    ),
    *(
        Correction(model_type, (name,), axis, f"{side} / {scale}", f"{side} // {scale}", why="a size is a whole number")
        for model_type, name, start, scale in (
            ("diffusers.vae-encoder", "latent_parameters", "sample_", 8),
            ("diffusers.dcae-encoder", "latent_sample", "", 32),
        )
        for axis, side in ((2, f"{start}height"), (3, f"{start}width"))
    ),
)
NEVER_MADE: tuple[NeverMade, ...] = (
    NeverMade(SEEN, ("sentence-similarity",), why="another name of feature-extraction, declared without texts"),
)
INPUTS_ADDED: tuple[Added, ...] = ()
TENSORS_DROPPED: tuple[Excess, ...] = ()
SIZES_CORRECTED: tuple[Resized, ...] = ()
PRESETS_LEFT: tuple[Left, ...] = (
    Left(
        model_type="diffusers.flux-transformer-2d",
        preset="diffusers_0.30",
        same_as="default",
        why="diffusers before 0.31 gave ids a batch axis, and does not run beside transformers 5",
    ),
)

"""Where a plan differs from Optimum's on purpose: models of timm, sentence-transformers and diffusers."""

from __future__ import annotations

from corrected.records import AbsentTensors, AddedInput, CorrectedSize, Correction, RepeatedPreset, WithoutModel

CLIP = "sentence_transformers.clip"

CORRECTIONS: tuple[Correction, ...] = (
    Correction(
        model_type="timm.default-timm-config",
        tensors=("pixel_values",),
        axis=1,
        optimum="num_channels",
        ours=None,
        why="the number of channels is fixed by the weights",
    ),
    *(
        Correction(
            CLIP, ("pixel_values",), axis, optimum, ours=None, why="positions are learned for images of one size"
        )
        for axis, optimum in ((1, "num_channels"), (2, "height"), (3, "width"))
    ),
    Correction(
        CLIP,
        ("image_embeds",),
        axis=0,
        optimum="image_batch_size",
        ours="batch_size",
        why="the input pixel_values calls the number of images batch_size",
    ),
    Correction(
        model_type="diffusers.clip-text-with-projection",
        tensors=("text_embeds",),
        axis=1,
        optimum="sequence_length",
        ours=None,
        why="text_embeds has rank 2: one vector per text",
    ),
    *(
        Correction(
            model_type, (name,), axis, f"{side} / {scale}", f"{side} // {scale}", why="a size is an integer number"
        )
        for model_type, name, start, scale in (
            ("diffusers.vae-encoder", "latent_parameters", "sample_", 8),
            ("diffusers.dcae-encoder", "latent_sample", "", 32),
        )
        for axis, side in ((2, f"{start}height"), (3, f"{start}width"))
    ),
)
WITHOUT_MODEL: tuple[WithoutModel, ...] = (
    WithoutModel(CLIP, ("sentence-similarity",), why="a synonym of feature-extraction, declared without texts"),
)
ADDED_INPUTS: tuple[AddedInput, ...] = ()
ABSENT_TENSORS: tuple[AbsentTensors, ...] = ()
CORRECTED_SIZES: tuple[CorrectedSize, ...] = ()
REPEATED_PRESETS: tuple[RepeatedPreset, ...] = (
    RepeatedPreset(
        model_type="diffusers.flux-transformer-2d",
        preset="diffusers_0.30",
        same_as="default",
        why="diffusers before 0.31 gave ids a batch axis, and does not run with transformers 5",
    ),
)

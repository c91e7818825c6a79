"""Where a plan differs from Optimum's on purpose: models that see."""

from __future__ import annotations

from corrected.records import Added, Correction, Excess, NeverMade, Resized

PLACED = (
    "beit",
    "data2vec-vision",
    "deit",
    "donut-swin",
    "hiera",
    "levit",
    "mgp-str",
    "mobilevit",
    "pvt",
    "swin",
    "swinv2",
    "vit_mae",
    "vit_msn",
)
"""Models of images of one size."""

MOVED = (
    "convnext",
    "convnextv2",
    "cvt",
    "dinov2",
    "efficientnet",
    "poolformer",
    "regnet",
    "resnet",
    "swin2sr",
)
"""Models of images of any size."""

MAPS = (
    "convnext",
    "convnextv2",
    "cvt",
    "efficientnet",
    "mobilenet_v1",
    "mobilenet_v2",
    "poolformer",
    "regnet",
    "resnet",
    "swin2sr",
)
"""Those of them that give a map."""

CHANNELS = "weights are for as many channels as the configuration says"
FEATURES = "states of an image of any size are of any size too, which is not the image's own"

CORRECTIONS: tuple[Correction, ...] = (
    *(Correction(model_type, ("pixel_values",), 1, "num_channels", None, CHANNELS) for model_type in (*PLACED, *MOVED)),
    *(
        Correction(
            model_type, ("pixel_values",), axis, optimum, None, "there are places, or windows, for images of one size"
        )
        for model_type in PLACED
        for axis, optimum in ((2, "height"), (3, "width"))
    ),
    *(
        Correction(model_type, ("pixel_values",), axis, None, ours, "padding is worked out for images of every size")
        for model_type in ("mobilenet_v1", "mobilenet_v2")
        for axis, ours in ((2, "height"), (3, "width"))
    ),
    *(
        Correction(model_type, ("last_hidden_state",), axis, None, ours, FEATURES)
        for model_type in MAPS
        for axis, ours in ((2, "feature_height"), (3, "feature_width"))
    ),
    Correction("dinov2", ("last_hidden_state",), 1, None, "sequence_length", FEATURES),
    *(
        Correction(
            "mobilevit", ("logits",), axis, optimum, None, "a segmentation is smaller than the image that it is of"
        )
        for axis, optimum in ((2, "height"), (3, "width"))
    ),
    Correction(
        "efficientnet", ("logits",), 1, "num_classes", None, "the model knows as many classes as it has weights for"
    ),
    Correction("swin2sr", ("reconstruction",), 1, "num_channels", None, CHANNELS),
    *(
        Correction(
            "swin2sr",
            ("reconstruction",),
            2,
            f"height  * {times}",
            f"height * {times}",
            "a symbol that is printed has one space at each side of what it multiplies by",
        )
        for times in (2, 4)
    ),
)
NEVER_MADE: tuple[NeverMade, ...] = ()
INPUTS_ADDED: tuple[Added, ...] = (
    Added(
        name="noise",
        model_types=("vit_mae",),
        tasks=("feature-extraction",),
        axes=("batch_size",),
        why="which patches are kept is chosen by noise: random numbers inside a graph answer otherwise each time",
    ),
    Added(
        name="pixel_values",
        model_types=("perceiver",),
        tasks=("image-classification",),
        axes=("batch_size",),
        why="Optimum declares a text until it has made dummy inputs, and an image after",
    ),
)
TENSORS_DROPPED: tuple[Excess, ...] = tuple(
    Excess(
        model_type="perceiver",
        preset=preset,
        starts=("input_ids", "attention_mask"),
        tasks=("image-classification",),
        why="Optimum declares a text until it has made dummy inputs, and an image after",
    )
    for preset in ("default", "image")
)
SIZES_CORRECTED: tuple[Resized, ...] = tuple(
    Resized(
        model_type="perceiver",
        preset=preset,
        endings=("pixel_values",),
        axis=axis,
        optimum=optimum,
        ours=ours,
        why="an image is of the size that the model has places for, whatever its processor makes of it",
    )
    for preset, ours in (("default", 56), ("image", 224))
    for axis, optimum in ((2, 256), (3, 192))
)

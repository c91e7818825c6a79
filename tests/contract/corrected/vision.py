"""Where a plan differs from Optimum's on purpose: vision models."""

from __future__ import annotations

from corrected.records import AbsentTensors, AddedInput, CorrectedSize, Correction, WithoutModel

FIXED_SIZE = (
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
"""Models that take images of one size."""

ANY_SIZE = (
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
"""Models that take images of any size."""

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
"""Models with a feature map as output."""

CHANNELS = "the configuration fixes the number of channels, and the weights have it"
FEATURES = "an image of any size has hidden states of any size, which differs from that of the image"

CORRECTIONS: tuple[Correction, ...] = (
    *(
        Correction(model_type, ("pixel_values",), 1, "num_channels", None, CHANNELS)
        for model_type in (*FIXED_SIZE, *ANY_SIZE)
    ),
    *(
        Correction(
            model_type,
            ("pixel_values",),
            axis,
            optimum,
            None,
            "position embeddings, or windows, are for images of one size",
        )
        for model_type in FIXED_SIZE
        for axis, optimum in ((2, "height"), (3, "width"))
    ),
    *(
        Correction(model_type, ("pixel_values",), axis, None, ours, "the padding is computed for images of every size")
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
        Correction("mobilevit", ("logits",), axis, optimum, None, "a segmentation map is smaller than its image")
        for axis, optimum in ((2, "height"), (3, "width"))
    ),
    Correction("efficientnet", ("logits",), 1, "num_classes", None, "the number of classes is fixed by the weights"),
    Correction("swin2sr", ("reconstruction",), 1, "num_channels", None, CHANNELS),
    *(
        Correction(
            "swin2sr",
            ("reconstruction",),
            2,
            f"height  * {times}",
            f"height * {times}",
            "onnxfn prints one space on each side of an operator",
        )
        for times in (2, 4)
    ),
)
WITHOUT_MODEL: tuple[WithoutModel, ...] = ()
ADDED_INPUTS: tuple[AddedInput, ...] = (
    AddedInput(
        name="noise",
        model_types=("vit_mae",),
        tasks=("feature-extraction",),
        axes=("batch_size",),
        why="noise chooses the masked patches; with random numbers inside, a graph has other outputs at each call",
    ),
    AddedInput(
        name="pixel_values",
        model_types=("perceiver",),
        tasks=("image-classification",),
        axes=("batch_size",),
        why="Optimum declares a text before it generates dummy inputs, and an image afterwards",
    ),
)
ABSENT_TENSORS: tuple[AbsentTensors, ...] = tuple(
    AbsentTensors(
        model_type="perceiver",
        preset=preset,
        starts=("input_ids", "attention_mask"),
        tasks=("image-classification",),
        why="Optimum declares a text before it generates dummy inputs, and an image afterwards",
    )
    for preset in ("default", "image")
)
CORRECTED_SIZES: tuple[CorrectedSize, ...] = tuple(
    CorrectedSize(
        model_type="perceiver",
        preset=preset,
        endings=("pixel_values",),
        axis=axis,
        optimum=optimum,
        ours=ours,
        why="the position embeddings of the model fix the image size, and the image processor has another",
    )
    for preset, ours in (("default", 56), ("image", 224))
    for axis, optimum in ((2, 256), (3, 192))
)

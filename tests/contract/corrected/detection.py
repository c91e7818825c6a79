"""Where a plan differs from Optimum's on purpose: detection, segmentation, depth."""

from __future__ import annotations

from corrected.records import AbsentTensors, AddedInput, CorrectedSize, Correction, WithoutModel

QUERIES = ("logits", "pred_boxes", "pred_masks", "class_queries_logits", "masks_queries_logits")
SIDES = ((2, "height"), (3, "width"))
MAPS = "the size of a map is a formula of the size of the image"

CORRECTIONS: tuple[Correction, ...] = (
    *(
        Correction(
            model_type=model_type,
            tensors=("pixel_values",),
            axis=1,
            optimum="num_channels",
            ours=None,
            why="the configuration fixes the number of channels, and the weights have it",
        )
        for model_type in ("detr", "dpt", "glpn", "maskformer", "segformer", "table-transformer", "yolos")
    ),
    *(
        Correction(
            model_type=model_type,
            tensors=QUERIES,
            axis=1,
            optimum="num_queries",
            ours=None,
            why="the number of queries is fixed by the weights",
        )
        for model_type in (
            "d_fine",
            "detr",
            "maskformer",
            "rt_detr",
            "rt_detr_v2",
            "table-transformer",
            "yolos",
        )
    ),
    *(
        Correction(
            model_type=model_type,
            tensors=("logits",),
            axis=1,
            optimum="num_labels",
            ours=None,
            why="the number of classes is fixed by the weights",
        )
        for model_type in ("dpt", "segformer")
    ),
    *(
        Correction(model_type, (tensor,), axis, optimum, f"( {side} + {stride - 1} ) // {stride}", MAPS, task)
        for model_type, tensor, stride, is_declared, task in (
            ("detr", "pred_masks", 4, False, None),
            ("glpn", "last_hidden_state", 32, False, None),
            ("maskformer", "masks_queries_logits", 4, True, None),
            ("segformer", "last_hidden_state", 32, False, None),
            ("segformer", "logits", 4, False, "image-segmentation"),
            ("segformer", "logits", 4, True, "semantic-segmentation"),
        )
        for axis, side in SIDES
        for optimum in (side if is_declared else None,)
    ),
    *(
        Correction(
            model_type=model_type,
            tensors=("last_hidden_state",),
            axis=1,
            optimum=None,
            ours=f"( height // 16 ) * ( width // 16 ) + {others}",
            why="there is one vector per patch, and a larger image has more patches",
        )
        for model_type, others in (("dpt", "1"), ("yolos", "100 + 1"))
    ),
    *(
        Correction(
            model_type="dpt",
            tensors=(tensor,),
            axis=axis,
            optimum=side,
            ours=f"( {side} // 16 + 1 ) // 2 * 32",
            why="half of the patches along a side, rounded up, are doubled five times",
        )
        for tensor, sides in (("predicted_depth", ((1, "height"), (2, "width"))), ("logits", SIDES))
        for axis, side in sides
    ),
    *(
        Correction(
            model_type="vitpose",
            tensors=("heatmaps",),
            axis=axis,
            optimum=optimum,
            ours=None,
            why="the position embeddings are for images of one size, and there is one map per keypoint",
        )
        for axis, optimum in ((1, "num_keypoints"), *SIDES)
    ),
)
WITHOUT_MODEL: tuple[WithoutModel, ...] = ()
ADDED_INPUTS: tuple[AddedInput, ...] = ()
ABSENT_TENSORS: tuple[AbsentTensors, ...] = ()
CORRECTED_SIZES: tuple[CorrectedSize, ...] = tuple(
    CorrectedSize(model_type, "default", ("pixel_values",), axis, optimum, ours, why)
    for model_type, optimum, ours, why in (
        ("dpt", 384, 368, "an odd number of patches, so that the sizes of the stages differ"),
        ("maskformer", 64, 720, "two windows of Swin along each side of its last stage"),
    )
    for axis in (2, 3)
)

"""Where a plan differs from Optimum's on purpose: models that find things in images."""

from __future__ import annotations

from corrected.records import Added, Correction, Excess, NeverMade, Resized

QUERIES = ("logits", "pred_boxes", "pred_masks", "class_queries_logits", "masks_queries_logits")
SIDES = ((2, "height"), (3, "width"))
MAPS = "a map of another size than the image goes by an expression of the image's"

CORRECTIONS: tuple[Correction, ...] = (
    *(
        Correction(
            model_type=model_type,
            tensors=("pixel_values",),
            axis=1,
            optimum="num_channels",
            ours=None,
            why="the model has weights for the channels of its configuration",
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
            why="there are as many queries as the model has learned",
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
            why="there are as many classes as the model has learned",
        )
        for model_type in ("dpt", "segformer")
    ),
    *(
        Correction(model_type, (tensor,), axis, optimum, f"( {side} + {stride - 1} ) // {stride}", MAPS, task)
        for model_type, tensor, stride, moves, task in (
            ("detr", "pred_masks", 4, False, None),
            ("glpn", "last_hidden_state", 32, False, None),
            ("maskformer", "masks_queries_logits", 4, True, None),
            ("segformer", "last_hidden_state", 32, False, None),
            ("segformer", "logits", 4, False, "image-segmentation"),
            ("segformer", "logits", 4, True, "semantic-segmentation"),
        )
        for axis, side in SIDES
        for optimum in (side if moves else None,)
    ),
    *(
        Correction(
            model_type=model_type,
            tensors=("last_hidden_state",),
            axis=1,
            optimum=None,
            ours=f"( height // 16 ) * ( width // 16 ) + {beside}",
            why="there is a vector a patch, and an image has more of them the larger it is",
        )
        for model_type, beside in (("dpt", "1"), ("yolos", "100 + 1"))
    ),
    *(
        Correction(
            model_type="dpt",
            tensors=(tensor,),
            axis=axis,
            optimum=side,
            ours=f"( {side} // 16 + 1 ) // 2 * 32",
            why="what is computed on half of the patches along a side, or one more, is doubled five times",
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
            why="the model has places for the patches of one size of image, and a map a keypoint that it knows",
        )
        for axis, optimum in ((1, "num_keypoints"), *SIDES)
    ),
)
NEVER_MADE: tuple[NeverMade, ...] = ()
INPUTS_ADDED: tuple[Added, ...] = ()
TENSORS_DROPPED: tuple[Excess, ...] = ()
SIZES_CORRECTED: tuple[Resized, ...] = tuple(
    Resized(
        "dpt", "default", ("pixel_values",), axis, 384, 368, "an odd number of patches, where stages differ in size"
    )
    for axis in (2, 3)
)

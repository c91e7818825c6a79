"""Models for detection, segmentation, depth and keypoints. Rows that Optimum also has take its inputs and tasks."""

from collections.abc import Mapping

from onnxfn.architectures.families.detection import (
    IMAGE_ENCODER,
    MASK_DECODER,
    grayscale_images,
    grayscale_pairs,
    image_cases,
    image_embedding,
    images_of_any_size,
    images_without_cases,
    promptable_segmentation,
    segmentation_tasks,
)
from onnxfn.architectures.families.rows import rows, sized_in
from onnxfn.architectures.families.vision import backbone, image_features, image_reads, pixel_inputs
from onnxfn.specs.algebra.compose import compose, from_config, reads
from onnxfn.specs.algebra.dummies import generates, sized
from onnxfn.specs.algebra.facts import case, gives, loads, patched, runs, takes
from onnxfn.specs.algebra.spec import Call, ExportSpec
from onnxfn.specs.edits.behaviors import model_part
from onnxfn.specs.edits.tensors import without
from onnxfn.specs.records import Getter
from onnxfn.specs.tasks.tasks import tasked

QUARTER_SIZE = "(height+3)//4 (width+3)//4"
NUM_PATCHES = "(height//patch_size)*(width//patch_size)"
UPSAMPLED_SIZE = "height//patch_size*enlarged width//patch_size*enlarged"
DOUBLED_SIZE = "(height//patch_size+1)//2*{0} (width//patch_size+1)//2*{0}"
"""The height and width of an output that is upsampled from half the number of patches, rounded up."""

# Each query has a state, and predicts a box.
table_transformer: ExportSpec = compose(
    images_of_any_size, image_features("batch_size _ _"), tasked("object-detection")
)


def windows(number: int) -> Getter:
    """The side in pixels of an image that has `number` patches per window of the backbone along a side."""
    return from_config(f"patch_size * windows_per_side * {number}")


# The backbone cuts each side of every image into a fixed number of windows: the patches are a multiple of it.
lw_detr: ExportSpec = compose(
    images_without_cases,
    reads(
        patch_size="backbone_config.patch_size",
        windows_per_side="backbone_config.num_windows_side or backbone_config.num_windows",
    ),
    image_cases((windows(3), windows(2)), (windows(2), windows(4)), traced=(windows(4), windows(3))),
    tasked("object-detection"),
)

yolos: ExportSpec = compose(
    images_of_any_size,
    reads(patch_size="patch_size", num_detection_tokens="num_detection_tokens"),
    sized(height=512, width=864),
    tasked("feature-extraction", gives("last_hidden_state", f"batch_size {NUM_PATCHES}+num_detection_tokens+1 _")),
    tasked("object-detection"),
)


def rt_detr(*outputs: ExportSpec) -> ExportSpec:
    """A spec of RT-DETR, or of a model derived from it, which has these outputs beyond those of object-detection."""
    return compose(
        images_without_cases, image_cases((96, 128), (160, 96), traced=(320, 320)), tasked("object-detection", *outputs)
    )


order_outputs: ExportSpec = gives("order_logits", "batch_size _ _")


def window_multiple(windows: int, otherwise: int) -> Getter:
    """The side length in pixels of `windows` Swin windows; `otherwise` for a backbone without windows."""
    return from_config(f"{windows} * backbone_config.window_size or {otherwise}")


# Backbones of these models. Most checkpoints have Swin, which pads an image only where its size needs it. torch.export
# specializes the number of windows if it is 1. So the traced image has two windows along each side in the last stage,
# and a case has several windows in all stages.
swin_backbone: ExportSpec = compose(
    sized(height=window_multiple(60, 64), width=window_multiple(60, 64)),
    case("windows", sized(batch_size=1, height=window_multiple(41, 73), width=window_multiple(37, 67))),
)

depth_anything: ExportSpec = compose(
    images_without_cases,
    reads(patch_size="backbone_config.patch_size or patch_size"),
    image_cases((84, 70), (61, 83), traced=(70, 98)),
    tasked(
        "depth-estimation",
        gives("predicted_depth", "batch_size height//patch_size*patch_size width//patch_size*patch_size"),
    ),
)

TIPSV2_SIZE = DOUBLED_SIZE.format(16)

# An image is divided into patches at several scales. At the coarsest it is one patch, so its size is fixed.
IMAGE_SIDE = "patch_size // scaled_images_ratios[0]"

# Each query predicts a class and a mask.
mask_query_outputs: ExportSpec = compose(
    gives("class_queries_logits", "batch_size _ _"), gives("masks_queries_logits", f"batch_size _ {QUARTER_SIZE}")
)

maskformer: ExportSpec = compose(
    images_of_any_size,
    swin_backbone,
    tasked(
        "feature-extraction",
        gives("last_hidden_state", "batch_size _ _", path=("transformer_decoder_last_hidden_state",)),
    ),
    tasked("image-segmentation", loads("AutoModelForInstanceSegmentation"), mask_query_outputs),
)

universal_segmentation: ExportSpec = compose(loads("AutoModelForUniversalSegmentation"), mask_query_outputs)

# The number of keypoints depends on the image. The axis has that of the image with the most, and a mask for the others.
KEYPOINT_AXES = "batch_size num_keypoints"

# Two images, and the keypoint of the second that matches each keypoint of the first.
PAIR_AXES = "batch_size 2 num_keypoints"

superglue: ExportSpec = compose(
    grayscale_pairs,
    tasked(
        "keypoint-matching",
        gives("matches", PAIR_AXES, kind="int64"),
        gives("matching_scores", PAIR_AXES),
        gives("keypoints", f"{PAIR_AXES} 2", kind="float"),
        gives("mask", PAIR_AXES, kind="int32"),
    ),
)

# Each cell of one image is compared with each cell of the other. Attention aggregates 4 by 4 cells, so the sides are
# multiples of 32.
CELL_AXES = "batch_size 2 (height//cell)*(width//cell)"

# SAM and models derived from it. One part encodes the image once. The other decodes masks, once per set of points.
EMBEDDING_AXES = "batch_size channels= places= places="
sam_reads: ExportSpec = compose(
    image_reads(),
    reads(
        image_size="vision_config.image_size",
        channels="prompt_encoder_config.hidden_size",
        places="prompt_encoder_config.image_embedding_size",
    ),
)

# The image embeddings have three resolutions, the highest first.
LEVELS = (0, 1, 2)
sam2: ExportSpec = compose(
    image_reads("vision_config.backbone_config."),
    reads(
        image_size="prompt_encoder_config.image_size",
        channels_0="mask_decoder_config.hidden_size // 8",
        channels_1="mask_decoder_config.hidden_size // 4",
        channels_2="mask_decoder_config.hidden_size",
        **{f"places_{level}": f"vision_config.backbone_feature_sizes[{level}][0]" for level in LEVELS},
    ),
    promptable_segmentation(),
    *(
        image_embedding(
            f"image_embeddings.{level}", f"batch_size channels_{level}= places_{level}= places_{level}=", path=(level,)
        )
        for level in LEVELS
    ),
    model_part(MASK_DECODER, gives("object_score_logits", "batch_size point_batch_size _")),
)

images_of_whole_cells: ExportSpec = compose(images_without_cases, image_cases((96, 64), (64, 128)))
"""Models for images whose sides are multiples of 32."""

ROWS: Mapping[str, ExportSpec] = rows(
    {
        # Patches have 16 pixels. The image of the trace has odd numbers of patches.
        "chmv2": compose(
            depth_anything,
            sized(height=80, width=112),
            tasked("depth-estimation", gives("predicted_depth", f"batch_size {DOUBLED_SIZE.format(32)}")),
        ),
        "conditional_detr dab-detr table-transformer": table_transformer,
        "d_fine deimv2 rt_detr rt_detr_v2": rt_detr(),
        # The sides of the smallest feature map are a 64th of those of the image. The trace has an image for which they
        # are greater than 1.
        "deformable_detr": compose(table_transformer, image_cases((192, 136), (131, 183), traced=(160, 224))),
        "depth_anything": depth_anything,
        "depth_pro": compose(
            pixel_inputs,
            reads(num_channels="image_model_config.num_channels", image_height=IMAGE_SIDE, image_width=IMAGE_SIDE),
            tasked("depth-estimation", gives("field_of_view", "batch_size", when="use_fov_model")),
        ),
        "detr": compose(
            table_transformer,
            tasked(
                "image-segmentation",
                gives("logits", "batch_size _ _"),
                gives("pred_masks", f"batch_size _ {QUARTER_SIZE}"),
            ),
        ),
        "dpt": compose(
            images_without_cases,
            reads(patch_size="patch_size"),
            # The trace has odd numbers of patches, so that stages have unequal sizes and are resized.
            image_cases((96, 96), (80, 80), traced=(368, 368)),
            tasked("feature-extraction", gives("last_hidden_state", f"batch_size {NUM_PATCHES}+1 _")),
            tasked("depth-estimation", gives("predicted_depth", f"batch_size {DOUBLED_SIZE.format(32)}")),
            segmentation_tasks(f"batch_size _ {DOUBLED_SIZE.format(32)}"),
        ),
        "efficientloftr": compose(
            grayscale_pairs,
            reads(cell=" * ".join(f"stage_stride[{stage}]" for stage in range(4))),
            image_cases((96, 64), (64, 128)),
            tasked(
                "keypoint-matching",
                gives("matches", CELL_AXES, kind="int64"),
                gives("matching_scores", CELL_AXES),
                gives("keypoints", f"{CELL_AXES} 2", kind="float"),
            ),
        ),
        "eomt eomt_dinov3": compose(
            pixel_inputs,
            reads(image_height="image_size", image_width="image_size"),
            runs("detection.with_constant_mask_probs"),
            tasked("image-segmentation", universal_segmentation, gives("masks_queries_logits", "batch_size _ _ _")),
        ),
        "glpn": compose(
            images_of_whole_cells,
            tasked("feature-extraction", gives("last_hidden_state", "batch_size _ (height+31)//32 (width+31)//32")),
            tasked("depth-estimation", gives("predicted_depth", "batch_size height width")),
        ),
        # Attention is eager: the other implementations branch on the number of keypoints.
        "lightglue": compose(
            superglue, ExportSpec(call=Call(submodule="detection.keypoint_matcher", attention="eager"))
        ),
        "lw_detr": lw_detr,
        "mask2former": compose(maskformer, tasked("image-segmentation", universal_segmentation)),
        "maskformer": maskformer,
        "oneformer": compose(
            images_of_any_size,
            swin_backbone,
            takes("task_inputs", "batch_size task_seq_len=", "task_tokens"),
            generates("task_tokens", "integers", high=from_config("text_encoder_vocab_size")),
            tasked("image-segmentation", universal_segmentation),
        ),
        # Models that detect lines of text. Models that recognize their text are in vision.py.
        "pp_ocrv5_mobile_det pp_ocrv5_server_det pp_ocrv6_medium_det pp_ocrv6_small_det": without(
            compose(
                images_of_whole_cells,
                tasked("object-detection", gives("last_hidden_state", "batch_size 1 height width")),
            ),
            *("logits", "pred_boxes"),
        ),
        "prompt_depth_anything": compose(
            depth_anything,
            takes("prompt_depth", "batch_size 1 prompt_height prompt_width", "depths", kind="float"),
            generates("depths", "uniform", low=0.5, high=8.0),
            sized_in("one several", prompt_height=(19, 12, 31), prompt_width=(25, 16, 9)),
        ),
        "rf_detr": compose(
            lw_detr,
            tasked(
                "image-segmentation",
                loads("AutoModelForInstanceSegmentation"),
                gives("logits", "batch_size _ _"),
                gives("pred_boxes", "batch_size _ _"),
                gives("pred_masks", f"batch_size _ {QUARTER_SIZE}"),
            ),
        ),
        "sam": compose(
            sam_reads,
            promptable_segmentation(
                takes("image_positional_embeddings", EMBEDDING_AXES, "normal", kind="float"),
                takes("image_embeddings", EMBEDDING_AXES, "normal", kind="float"),
                encoder="sam.vision_encoder",
                decoder="sam.prompt_encoder_mask_decoder",
            ),
            model_part(
                IMAGE_ENCODER,
                gives("image_embeddings", "batch_size _ _ _"),
                gives("image_positional_embeddings", "batch_size _ _ _"),
            ),
        ),
        "sam2 sam3_tracker": sam2,
        # The output of the first layer with global attention is also an input of the mask decoder.
        "sam_hq": compose(
            sam_reads,
            reads(vision_size="vision_config.hidden_size"),
            promptable_segmentation(),
            image_embedding("image_embeddings", EMBEDDING_AXES, path=(0,)),
            image_embedding("intermediate_embeddings.0", "batch_size places= places= vision_size=", path=(1, 0)),
        ),
        "sapiens2": compose(
            backbone(images_without_cases, "batch_size _ height//patch_size width//patch_size"),
            reads(patch_size="patch_size", enlarged="2 ** len(head_config.upsample_out_channels)"),
            image_cases((96, 64), (61, 83)),
            tasked("semantic-segmentation", gives("logits", f"batch_size _ {UPSAMPLED_SIZE}")),
            tasked(
                "keypoint-detection",
                loads("AutoModelForPoseEstimation"),
                gives("heatmaps", f"batch_size _ {UPSAMPLED_SIZE}"),
            ),
            tasked("normal-estimation", gives("normals", f"batch_size _ {UPSAMPLED_SIZE}")),
            tasked(
                "image-matting",
                gives("alphas", f"batch_size _ {UPSAMPLED_SIZE}"),
                gives("foregrounds", f"batch_size 3 {UPSAMPLED_SIZE}"),
            ),
        ),
        # The prompt is an image with its mask. The model predicts the mask of another image.
        "seggpt": compose(
            reads(half="image_size[0] // 2", image_width="image_size[1]"),
            *(
                takes(name, "batch_size num_channels= half= image_width=", "normal", kind="float")
                for name in ("pixel_values", "prompt_pixel_values", "prompt_masks")
            ),
            sized(batch_size=2),
            tasked("image-segmentation", loads("SegGptForImageSegmentation"), gives("pred_masks", "batch_size _ _ _")),
        ),
        "segformer": compose(
            images_of_any_size,
            tasked("feature-extraction", gives("last_hidden_state", "batch_size _ (height+31)//32 (width+31)//32")),
            tasked("image-classification"),
            segmentation_tasks(f"batch_size _ {QUARTER_SIZE}"),
        ),
        "superglue": superglue,
        "superpoint": compose(
            grayscale_images,
            tasked(
                "keypoint-detection",
                gives("keypoints", f"{KEYPOINT_AXES} 2", kind="float"),
                gives("scores", KEYPOINT_AXES, kind="float"),
                gives("descriptors", f"{KEYPOINT_AXES} _"),
                gives("mask", KEYPOINT_AXES, kind="int32"),
            ),
        ),
        "upernet": compose(
            images_of_any_size,
            swin_backbone,
            tasked("semantic-segmentation", gives("logits", "batch_size _ height width")),
        ),
        "tipsv2_dpt": compose(
            depth_anything,
            tasked("depth-estimation", gives("predicted_depth", f"batch_size {TIPSV2_SIZE}")),
            tasked("semantic-segmentation", gives("logits", f"batch_size _ {TIPSV2_SIZE}")),
            tasked("normal-estimation", gives("normals", f"batch_size 3 {TIPSV2_SIZE}")),
        ),
        "uvdoc": compose(
            images_of_whole_cells,
            tasked("feature-extraction", gives("last_hidden_state", "batch_size 2 (height+15)//16 (width+15)//16")),
        ),
        "vitmatte": compose(
            images_without_cases,
            image_cases((96, 64), (64, 128), traced=(96, 80)),
            tasked("image-matting", gives("alphas", "batch_size 1 height width")),
            patched(
                "transformers.models.vitdet.modeling_vitdet:get_rel_pos",
                by="image_sizes.relative_positions",
                why="converts the height and the width to Python integers",
            ),
        ),
        "vitpose": compose(
            pixel_inputs,
            image_reads("backbone_config."),
            tasked("keypoint-detection", loads("AutoModelForPoseEstimation"), gives("heatmaps", "batch_size _ _ _")),
        ),
        "yolos": yolos,
        "zoedepth": compose(
            images_without_cases,
            reads(
                num_channels="backbone_config.num_channels",
                patch_size="backbone_config.patch_size",
                several="len(bin_configurations) >= 2",
            ),
            image_cases((96, 64), (80, 112), traced=(368, 368)),  # odd numbers of patches, as for DPT
            tasked(
                "depth-estimation",
                gives("predicted_depth", f"batch_size {DOUBLED_SIZE.format(32)}"),
                gives("domain_logits", "batch_size _", when="several"),
            ),
        ),
        "pp_doclayout_v2": compose(
            rt_detr(order_outputs),
            patched(
                "torch:take_along_dim",
                by="image_sizes.gathered_along_dim",
                why="compares sizes, so that the trace fixes the batch size",
            ),
        ),
        "pp_doclayout_v3": rt_detr(order_outputs, gives("out_masks", f"batch_size _ {QUARTER_SIZE}")),
    }
)

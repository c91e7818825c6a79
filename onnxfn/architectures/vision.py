"""Models for images and videos. Rows that Optimum also has take its inputs and tasks (tests/contract)."""

from collections.abc import Mapping

from onnxfn.architectures.families.rows import rows, sized_in
from onnxfn.architectures.families.text import text_encoder, text_inputs
from onnxfn.architectures.families.vision import (
    DYNAMIC_MAP,
    DYNAMIC_MAPS,
    FIXED_MAP,
    backbone,
    dynamic_images,
    fixed_images,
    image_features,
    video_inputs,
    vision,
    vision_of_any_size,
)
from onnxfn.specs.algebra.compose import compose, reads
from onnxfn.specs.algebra.dummies import generates, sized
from onnxfn.specs.algebra.facts import TOKENS, always, checks, gives, loads, takes
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.edits.tensors import only_tasks, without
from onnxfn.specs.records import NestedDummy
from onnxfn.specs.tasks.tasks import tasked

STATES = "batch_size _ _"
SEQUENCE = "batch_size sequence_length _"

vision_transformer_of_any_size: ExportSpec = compose(
    dynamic_images, image_features(SEQUENCE), tasked("image-classification")
)
"""Models for images of any size that return a sequence of patches: DINOv2, FocalNet."""

ROWS: Mapping[str, ExportSpec] = rows(
    {
        "vit deit swin swinv2": compose(vision, tasked("masked-im")),
        "beit data2vec-vision hiera levit pvt vit_msn dinov2_with_registers ijepa": vision,
        (
            "convnext convnextv2 cvt efficientnet mobilenet_v1 mobilenet_v2 poolformer regnet resnet bit pvt_v2 "
            "swiftformer textnet"
        ): vision_of_any_size,
        "dinov2": vision_transformer_of_any_size,
        "donut-swin": only_tasks(vision, "feature-extraction"),
        "imagegpt": compose(
            only_tasks(text_encoder, "feature-extraction"),
            text_inputs,
            generates("token_positions", "positions", mask=NestedDummy("padding_mask", TOKENS)),
            tasked("feature-extraction", takes("position_ids", TOKENS, "token_positions")),
            tasked("image-classification"),
            always(use_cache=False),
            checks(mask_input="attention_mask"),
        ),
        "mgp-str": without(
            compose(
                fixed_images,
                tasked(
                    "feature-extraction",
                    *(
                        gives(f"{kind}_logits", STATES, path=("logits", index))
                        for index, kind in enumerate(("char", "bpe", "wp"))
                    ),
                ),
            ),
            "last_hidden_state",
        ),
        # Each block branches on whether patches divide the image, and resizes it if not. So the image size is fixed.
        "mobilevit": compose(
            fixed_images,
            image_features(FIXED_MAP),
            tasked("image-classification"),
            tasked("image-segmentation", loads("AutoModelForSemanticSegmentation"), gives("logits", FIXED_MAP)),
        ),
        "perceiver": compose(
            only_tasks(text_encoder, "fill-mask", "text-classification"),
            tasked("fill-mask", text_inputs, gives("logits", STATES)),
            tasked("text-classification", text_inputs),
            tasked("image-classification", fixed_images, reads(num_channels="3")),
            # the model without a preprocessor takes vectors
            tasked(
                "feature-extraction",
                takes("inputs", f"{TOKENS} d_model=", "normal", kind="float"),
                takes("attention_mask", TOKENS, "padding_mask"),
                gives("last_hidden_state", STATES),
            ),
        ),
        # The model pads images to whole windows, and then computes as if they had no padding. Its processor pads them
        # before.
        "swin2sr": compose(
            dynamic_images,
            sized_in("one several", height=(None, 96, 72), width=(None, 152, 64)),
            image_features(DYNAMIC_MAP),
            reads(upscale="upscale"),
            tasked("image-to-image", gives("reconstruction", "batch_size _ height*upscale width*upscale")),
        ),
        # The noise decides which patches are masked. It is an input, so that the outputs depend on the inputs only.
        "vit_mae": compose(
            fixed_images,
            image_features(STATES),
            takes("noise", "batch_size num_patches=", "noise", kind="float"),
            generates("noise", "uniform", low=0.0, high=1.0),
            reads(num_patches="image_height // patch_size * (image_width // patch_size)"),
        ),
        "dinov3_convnext dinov3_vit pixio": compose(dynamic_images, image_features(SEQUENCE)),
        "hgnet_v2": compose(dynamic_images, tasked("image-classification")),
        "timesformer videomae vivit": compose(video_inputs(), image_features(STATES), tasked("video-classification")),
        "vitdet sam_vision_model sam_hq_vision_model": compose(fixed_images, image_features(FIXED_MAP)),
        "internvl_vision radio": compose(fixed_images, image_features(STATES)),
        "rt_detr_resnet pp_lcnet_v3 pp_lcnet_v4 uvdoc_backbone": backbone(dynamic_images, DYNAMIC_MAPS),
        "mobilevitv2": compose(fixed_images, image_features(FIXED_MAP), tasked("image-classification")),
        # A line of text has the height that the model was trained with, and any width.
        "pp_ocrv5_mobile_rec pp_ocrv5_server_rec pp_ocrv6_small_rec pp_ocrv6_tiny_rec": compose(
            dynamic_images,
            takes("pixel_values", "batch_size num_channels= 48 width", "normal", kind="float"),
            sized_in("one several", width=(160, 97, 75)),
            tasked("text-recognition"),
        ),
        "maskformer-swin lw_detr_vit rf_detr_dinov2": backbone(fixed_images, FIXED_MAP),
        "focalnet": compose(
            vision_transformer_of_any_size,
            tasked("masked-im", fixed_images),  # the masked patches are reshaped to a square
        ),
        "pp_lcnet": compose(
            dynamic_images, tasked("image-classification", gives("logits", "batch_size _", path=("last_hidden_state",)))
        ),
        # Positions come from rotations, so a video may have any number of frames from 2 on. ONNX Runtime refuses a lone
        # one, which modeling_vjepa2.VJEPA2Embeddings.forward repeats.
        "vjepa2": compose(
            video_inputs("pixel_values_videos", frames="num_frames"),
            sized(num_frames=4),
            image_features("batch_size num_patches _"),
            tasked("video-classification"),
        ),
        "vitpose_backbone": backbone(fixed_images, STATES),
    }
)

"""Models for images and videos. Rows that Optimum also has take its inputs and tasks (tests/contract)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from onnxfn.architectures.families import (
    DYNAMIC_MAP,
    DYNAMIC_MAPS,
    FIXED_MAP,
    backbone,
    dynamic_images,
    fixed_images,
    image_features,
    text_encoder,
    text_inputs,
    text_line_images,
    video_inputs,
    vision,
    vision_of_any_size,
)
from onnxfn.specs.compose import compose
from onnxfn.specs.dummies import generates, sized
from onnxfn.specs.edits.tensors import only_tasks, without
from onnxfn.specs.facts import TOKENS, always, case, checks, gives, loads, patched, takes
from onnxfn.specs.getters import reads
from onnxfn.specs.records import NestedDummy
from onnxfn.specs.spec import ExportSpec
from onnxfn.specs.tasks import tasked

STATES = "batch_size _ _"
SEQUENCE = "batch_size sequence_length _"
MODELING = "transformers.models"


image_classification: ExportSpec = tasked("image-classification")
masked_image_modeling: ExportSpec = tasked("masked-im")

vision_with_masks: ExportSpec = compose(vision, masked_image_modeling)
"""Models for images of one size that also predict masked patches: ViT, DeiT, Swin."""

vision_transformer_of_any_size: ExportSpec = compose(dynamic_images, image_features(SEQUENCE), image_classification)
"""Models for images of any size that return a sequence of patches: DINOv2, FocalNet."""


def tensorflow_padding(module: str) -> ExportSpec:
    """A spec of the patch of TensorFlow's padding, for images of any size.

    Args:
        module: The model's module in transformers: `mobilenet_v1`.
    """
    return patched(
        f"{MODELING}.{module}.modeling_{module}:apply_tf_padding",
        by="image_padding.padded_as_tensorflow",
        why="branches on whether the stride divides the size",
    )


def interpolated_positions(module: str, owner: str) -> ExportSpec:
    """A spec of the patch that interpolates position embeddings, for images of any size.

    Args:
        module: The model's module in transformers: `dinov2`.
        owner: The class with the method: `Dinov2Embeddings`.
    """
    return patched(
        f"{MODELING}.{module}.modeling_{module}:{owner}.interpolate_pos_encoding",
        by="position_embeddings.interpolated_bicubic",
        why="branches on whether the image has the size of the position embeddings",
    )


# Each block branches on whether patches divide the image, and resizes it if not. So the image size is fixed.
mobilevit: ExportSpec = compose(
    fixed_images,
    image_features(FIXED_MAP),
    image_classification,
    tasked("image-segmentation", spec=compose(loads("AutoModelForSemanticSegmentation"), gives("logits", FIXED_MAP))),
)

mgp_str: ExportSpec = without(
    compose(
        fixed_images,
        tasked(
            "feature-extraction",
            spec=compose(
                *(
                    gives(f"{kind}_logits", STATES, path=("logits", index))
                    for index, kind in enumerate(("char", "bpe", "wp"))
                )
            ),
        ),
    ),
    "last_hidden_state",
)

# The noise decides which patches are masked. It is an input, so that the outputs depend on the inputs only.
vit_mae: ExportSpec = compose(
    fixed_images,
    image_features(STATES),
    takes("noise", "batch_size num_patches=", "noise", kind="float"),
    generates("noise", "uniform", low=0.0, high=1.0),
    reads(num_patches="image_height // patch_size * (image_width // patch_size)"),
)

imagegpt: ExportSpec = compose(
    only_tasks(text_encoder, "feature-extraction"),
    text_inputs,
    generates("token_positions", "positions", mask=NestedDummy("padding_mask", TOKENS)),
    tasked("feature-extraction", spec=takes("position_ids", TOKENS, "token_positions")),
    image_classification,
    always(use_cache=False),
    checks(mask_input="attention_mask"),
)


# The model without a preprocessor takes vectors.
perceiver_features: ExportSpec = compose(
    takes("inputs", f"{TOKENS} d_model=", "vectors", kind="float"),
    takes("attention_mask", TOKENS, "padding_mask"),
    generates("vectors", "normal"),
    reads(d_model="d_model"),
    gives("last_hidden_state", STATES),
)
perceiver: ExportSpec = compose(
    only_tasks(text_encoder, "fill-mask", "text-classification"),
    tasked("fill-mask", spec=compose(text_inputs, gives("logits", STATES))),
    tasked("text-classification", spec=text_inputs),
    tasked("image-classification", spec=compose(fixed_images, reads(num_channels="3"))),
    tasked("feature-extraction", spec=perceiver_features),
)

# The model pads images to whole windows, and then computes as if they had no padding. Its processor pads them before.
swin2sr: ExportSpec = compose(
    dynamic_images,
    case("one", sized(height=96, width=152)),
    case("several", sized(height=72, width=64)),
    image_features(DYNAMIC_MAP),
    reads(upscale="upscale"),
    tasked("image-to-image", spec=gives("reconstruction", "batch_size _ height*upscale width*upscale")),
    patched(
        f"{MODELING}.swin2sr.modeling_swin2sr:Swin2SRModel.pad_and_normalize",
        by="image_padding.padded_to_windows",
        why="torch.export cannot prove that the padded size is a multiple of the window, and each layer branches on it",
    ),
    patched(
        f"{MODELING}.swin2sr.modeling_swin2sr:Swin2SRLayer.maybe_pad",
        by="image_padding.unpadded_states",
        why="the image is padded to whole windows before the first layer",
    ),
)

video_classification: ExportSpec = tasked("video-classification")


dynamic_backbone: ExportSpec = backbone(dynamic_images, DYNAMIC_MAPS)
fixed_backbone: ExportSpec = backbone(fixed_images, FIXED_MAP)

# A line of text has the height that the model was trained with, and any width.
text_recognition: ExportSpec = compose(text_line_images, tasked("text-recognition"))

ROWS: Mapping[str, ExportSpec] = MappingProxyType(
    {
        "vit": vision_with_masks,
        "beit": vision,
        "convnext": vision_of_any_size,
        "convnextv2": vision_of_any_size,
        "cvt": vision_of_any_size,
        "data2vec-vision": vision,
        "deit": vision_with_masks,
        "dinov2": compose(vision_transformer_of_any_size, interpolated_positions("dinov2", "Dinov2Embeddings")),
        "donut-swin": only_tasks(vision, "feature-extraction"),
        "efficientnet": vision_of_any_size,
        "hiera": vision,
        "imagegpt": imagegpt,
        "levit": vision,
        "mgp-str": mgp_str,
        "mobilenet_v1": compose(vision_of_any_size, tensorflow_padding("mobilenet_v1")),
        "mobilenet_v2": compose(vision_of_any_size, tensorflow_padding("mobilenet_v2")),
        "mobilevit": mobilevit,
        "perceiver": perceiver,
        "poolformer": vision_of_any_size,
        "pvt": vision,
        "regnet": vision_of_any_size,
        "resnet": vision_of_any_size,
        "swin": vision_with_masks,
        "swinv2": vision_with_masks,
        "swin2sr": swin2sr,
        "vit_mae": vit_mae,
        "vit_msn": vision,
        "dinov2_with_registers": vision,
        "dinov3_convnext": compose(dynamic_images, image_features(SEQUENCE)),
        "dinov3_vit": compose(dynamic_images, image_features(SEQUENCE)),
        "focalnet": compose(
            vision_transformer_of_any_size,
            tasked("masked-im", spec=fixed_images),  # the masked patches are reshaped to a square
            patched(
                f"{MODELING}.focalnet.modeling_focalnet:FocalNetPatchEmbeddings.maybe_pad",
                by="image_padding.padded_to_patches",
                why="branches on whether patches divide the size",
            ),
        ),
        "hgnet_v2": compose(dynamic_images, image_classification),
        "ijepa": vision,
        "mlcd_vision_model": only_tasks(vision, "feature-extraction"),
        "pixio": compose(dynamic_images, image_features(SEQUENCE), interpolated_positions("pixio", "PixioEmbeddings")),
        "pp_lcnet": compose(
            dynamic_images,
            tasked("image-classification", spec=gives("logits", "batch_size _", path=("last_hidden_state",))),
        ),
        "timesformer": compose(video_inputs(), image_features(STATES), video_classification),
        "videomae": compose(video_inputs(), image_features(STATES), video_classification),
        "vivit": compose(video_inputs(), image_features(STATES), video_classification),
        # Positions come from rotations, so a video may have any number of frames from 2 on. ONNX Runtime refuses a lone
        # one, which modeling_vjepa2.VJEPA2Embeddings.forward repeats.
        "vjepa2": compose(
            video_inputs("pixel_values_videos"),
            takes(
                "pixel_values_videos",
                "batch_size num_frames num_channels= image_height= image_width=",
                "pixels",
                kind="float",
            ),
            sized(num_frames=4),
            image_features("batch_size num_patches _"),
            video_classification,
        ),
        "videoprism_vision_model": compose(video_inputs("pixel_values_videos"), image_features(STATES)),
        "vitdet": compose(fixed_images, image_features(FIXED_MAP)),
        "radio": compose(fixed_images, image_features(STATES)),
        "aimv2_vision_model": compose(fixed_images, image_features(STATES)),
        "tipsv2_vision_model": compose(fixed_images, image_features(STATES)),
        "rt_detr_resnet": dynamic_backbone,
        "pp_lcnet_v3": dynamic_backbone,
        "pp_lcnet_v4": dynamic_backbone,
        "uvdoc_backbone": dynamic_backbone,
        "mobilevitv2": compose(fixed_images, image_features(FIXED_MAP), image_classification),
        "bit": compose(
            vision_of_any_size,
            *(
                patched(f"{MODELING}.bit.modeling_bit:{layer}.forward", by=f"bit.{by}", why=why)
                for layer, by, why in (
                    (
                        "DynamicPad2d",
                        "padded_features",
                        "rounds a quotient up in Python, so that the trace fixes the padding",
                    ),
                    (
                        "WeightStandardizedConv2d",
                        "weight_standardized_convolution",
                        "uses a batch norm in training mode, which has no translation to ONNX",
                    ),
                )
            ),
        ),
        "pvt_v2": vision_of_any_size,
        "swiftformer": vision_of_any_size,
        "textnet": vision_of_any_size,
        "pp_ocrv5_mobile_rec": text_recognition,
        "pp_ocrv5_server_rec": text_recognition,
        "pp_ocrv6_small_rec": text_recognition,
        "pp_ocrv6_tiny_rec": text_recognition,
        "maskformer-swin": fixed_backbone,
        "vitpose_backbone": backbone(fixed_images, STATES),
        "lw_detr_vit": fixed_backbone,
        "rf_detr_dinov2": fixed_backbone,
        "internvl_vision": compose(fixed_images, image_features(STATES)),
        "sam_vision_model": compose(fixed_images, image_features(FIXED_MAP)),
        "sam_hq_vision_model": compose(fixed_images, image_features(FIXED_MAP)),
    }
)

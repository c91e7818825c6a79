"""Models that see: rows. Inputs and tasks are those of Optimum's table: see tests/contract."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from onnxfn.architectures.families import (
    any_images,
    backbone,
    images,
    lines,
    sees,
    text_encoder,
    text_inputs,
    video,
    vision,
    vision_of_any_size,
)
from onnxfn.specs.compose import compose
from onnxfn.specs.dummies import generates, sized
from onnxfn.specs.edits.tensors import only_tasks, without
from onnxfn.specs.facts import TOKENS, always, case, checks, gives, loads, patched, takes
from onnxfn.specs.getters import constant, product, quotient, reads
from onnxfn.specs.records import NestedDummy
from onnxfn.specs.spec import ExportSpec
from onnxfn.specs.tasks import tasked

SEEN = "batch_size _ _"
PLACES = "batch_size sequence_length _"
MAP = "batch_size _ feature_height feature_width"
ONE_MAP = "batch_size _ _ _"
MODELING = "transformers.models"


classifies = tasked("image-classification")
masks = tasked("masked-im")

windows = compose(vision, masks)
"""Windows that shift over images of one size, to which they are clamped: Swin and those like it."""

places = compose(any_images, sees(PLACES), classifies)
"""Patches in a row, of images of any size."""


def padding_as_tensorflow(module: str) -> ExportSpec:
    """A spec whose padding is worked out for every size of an image."""
    return patched(
        f"{MODELING}.{module}.modeling_{module}:apply_tf_padding",
        by="image_padding.padded_as_tensorflow",
        why="it asks whether a stride divides the size, and a trace keeps one answer",
    )


def placing(module: str, owner: str) -> ExportSpec:
    """A spec whose places are spread over every size of an image."""
    return patched(
        f"{MODELING}.{module}.modeling_{module}:{owner}.interpolate_pos_encoding",
        by="position_embeddings.interpolated_bicubic",
        why="it leaves places as they are at the size that they are of, and a trace keeps that answer",
    )


# Where patches do not divide an image it is resized, which is a branch in every block.
mobilevit = compose(
    images,
    sees(ONE_MAP),
    classifies,
    tasked("image-segmentation", spec=compose(loads("AutoModelForSemanticSegmentation"), gives("logits", ONE_MAP))),
)

mgp_str = without(
    compose(
        images,
        tasked(
            "feature-extraction",
            spec=compose(
                *(
                    gives(f"{kind}_logits", SEEN, path=("logits", place))
                    for place, kind in enumerate(("char", "bpe", "wp"))
                )
            ),
        ),
    ),
    "last_hidden_state",
)

# What is kept of an image is chosen by noise; it is an input, so that an answer depends on what goes in and no more.
vit_mae = compose(
    images,
    sees(SEEN),
    takes("noise", "batch_size num_patches=", "noise", kind="float"),
    generates("noise", "uniform", low=0.0, high=1.0),
    reads(num_patches=product(quotient("image_height", "patch_size"), quotient("image_width", "patch_size"))),
)

imagegpt = compose(
    only_tasks(text_encoder, "feature-extraction"),
    text_inputs,
    generates("token_positions", "positions", mask=NestedDummy("padding_mask", TOKENS)),
    tasked("feature-extraction", spec=takes("position_ids", TOKENS, "token_positions")),
    classifies,
    always(use_cache=False),
    checks(mask_input="attention_mask"),
)


perceiver = compose(
    only_tasks(text_encoder, "fill-mask", "text-classification"),
    tasked("fill-mask", spec=compose(text_inputs, gives("logits", SEEN))),
    tasked("text-classification", spec=text_inputs),
    tasked("image-classification", spec=compose(images, reads(num_channels=constant(3)))),
)

# It pads an image to whole windows and then takes it to be unpadded: its processor pads before.
swin2sr = compose(
    any_images,
    case("one", sized(height=96, width=152)),
    case("several", sized(height=72, width=64)),
    sees(MAP),
    reads(upscale="upscale"),
    tasked("image-to-image", spec=gives("reconstruction", "batch_size _ height*upscale width*upscale")),
    patched(
        f"{MODELING}.swin2sr.modeling_swin2sr:Swin2SRModel.pad_and_normalize",
        by="image_padding.padded_to_windows",
        why="a remainder of a remainder is not seen to leave whole windows, and every layer asks again",
    ),
    patched(
        f"{MODELING}.swin2sr.modeling_swin2sr:Swin2SRLayer.maybe_pad",
        by="image_padding.unpadded_states",
        why="the image is padded to whole windows before the first layer",
    ),
)

films = tasked("video-classification")


backbone_of_any = backbone(any_images, "batch_size _ feature_height_{place} feature_width_{place}")
backbone_of_one = backbone(images, ONE_MAP)

# A line of text is as high as those that the model was made for, and as wide as it is long.
reads_lines = compose(lines, tasked("text-recognition"))

ROWS: Mapping[str, ExportSpec] = MappingProxyType(
    {
        "vit": windows,
        "beit": vision,
        "convnext": vision_of_any_size,
        "convnextv2": vision_of_any_size,
        "cvt": vision_of_any_size,
        "data2vec-vision": vision,
        "deit": windows,
        "dinov2": compose(places, placing("dinov2", "Dinov2Embeddings")),
        "donut-swin": only_tasks(vision, "feature-extraction"),
        "efficientnet": vision_of_any_size,
        "hiera": vision,
        "imagegpt": imagegpt,
        "levit": vision,
        "mgp-str": mgp_str,
        "mobilenet_v1": compose(vision_of_any_size, padding_as_tensorflow("mobilenet_v1")),
        # Fifty convolutions and units that clip: PyTorch's float32 is 2e-5 from its float64, of values of 2.
        "mobilenet_v2": compose(vision_of_any_size, padding_as_tensorflow("mobilenet_v2"), checks(atol=2e-5)),
        "mobilevit": mobilevit,
        "perceiver": perceiver,
        "poolformer": vision_of_any_size,
        "pvt": vision,
        "regnet": vision_of_any_size,
        "resnet": vision_of_any_size,
        "swin": windows,
        "swinv2": windows,
        "swin2sr": swin2sr,
        "vit_mae": vit_mae,
        "vit_msn": vision,
        "dinov2_with_registers": vision,
        "dinov3_convnext": compose(any_images, sees(PLACES)),
        "dinov3_vit": compose(any_images, sees(PLACES)),
        "focalnet": compose(
            places,
            tasked("masked-im", spec=images),  # what was masked is put into a square
            patched(
                f"{MODELING}.focalnet.modeling_focalnet:FocalNetPatchEmbeddings.maybe_pad",
                by="image_padding.padded_to_patches",
                why="it asks whether patches divide the size, and a trace keeps one answer",
            ),
        ),
        "hgnet_v2": compose(any_images, classifies),
        "ijepa": vision,
        "mlcd_vision_model": only_tasks(vision, "feature-extraction"),
        "pixio": compose(any_images, sees(PLACES), placing("pixio", "PixioEmbeddings")),
        "pp_lcnet": compose(
            any_images,
            tasked("image-classification", spec=gives("logits", "batch_size _", path=("last_hidden_state",))),
        ),
        "timesformer": compose(video(), sees(SEEN), films),
        "videomae": compose(video(), sees(SEEN), films),
        "vivit": compose(video(), sees(SEEN), films),
        "vjepa2": compose(video("pixel_values_videos"), sees(SEEN), films),
        "videoprism_vision_model": compose(video("pixel_values_videos"), sees(SEEN)),
        "vitdet": compose(images, sees(ONE_MAP)),
        "radio": compose(images, sees(SEEN)),
        "aimv2_vision_model": compose(images, sees(SEEN)),
        "tipsv2_vision_model": compose(images, sees(SEEN)),
        "rt_detr_resnet": backbone_of_any,
        "pp_lcnet_v3": backbone_of_any,
        "pp_lcnet_v4": backbone_of_any,
        "uvdoc_backbone": backbone_of_any,
        "mobilevitv2": compose(images, sees(ONE_MAP), classifies),
        "bit": compose(
            vision_of_any_size,
            *(
                patched(f"{MODELING}.bit.modeling_bit:{what}.forward", by=f"bit.{by}", why=why)
                for what, by, why in (
                    (
                        "DynamicPad2d",
                        "padded_features",
                        "it rounds a quotient up in Python, and a trace keeps the answer",
                    ),
                    (
                        "WeightStandardizedConv2d",
                        "weight_standardized_convolution",
                        "a norm that trains has no translation",
                    ),
                )
            ),
        ),
        "pvt_v2": vision_of_any_size,
        "swiftformer": vision_of_any_size,
        "textnet": vision_of_any_size,
        "pp_ocrv5_mobile_rec": reads_lines,
        "pp_ocrv5_server_rec": reads_lines,
        "pp_ocrv6_small_rec": reads_lines,
        "pp_ocrv6_tiny_rec": reads_lines,
        "maskformer-swin": backbone_of_one,
        "vitpose_backbone": backbone(images, SEEN),
        "lw_detr_vit": backbone_of_one,
        "rf_detr_dinov2": backbone_of_one,
        "internvl_vision": compose(images, sees(SEEN)),
        "sam_vision_model": compose(images, sees(ONE_MAP)),
        "sam_hq_vision_model": compose(images, sees(ONE_MAP)),
    }
)

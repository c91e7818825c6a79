"""Models of real sizes with random weights, of transformers 4 or 5: whichever is installed where this runs.

    python real_sized.py NAME FOLDER

writes a model as a checkpoint. This file imports neither onnxfn nor Optimum: it runs in the environments of both.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class RealSized:
    """A model of a real size.

    Attributes:
        kind: What it is for, as the tables name it.
        model: The name of its class in transformers.
        config: Makes its configuration; the argument is the module `transformers`.
        task: The task that it is exported for.
        vocoder: The name of the class of its vocoder, if it needs one.
        selects: Whether it goes on with the queries that have the best scores.
    """

    kind: str
    model: str
    config: Callable[[Any], Any]
    task: str
    vocoder: str | None = None
    selects: bool = False


WARM_UP = "vit-tiny"
"""The small model that a process exports first, so that its imports and tables are no part of a figure."""


def _resnet_backbone(transformers: Any) -> dict[str, Any]:
    """The arguments of a detector's configuration for a ResNet-50 of transformers itself."""
    backbone = transformers.ResNetConfig(out_features=["stage4"])
    return {"backbone_config": backbone, "use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None}


def _rt_detr_r18(transformers: Any) -> Any:
    backbone = transformers.RTDetrResNetConfig(
        hidden_sizes=[64, 128, 256, 512],
        depths=[2, 2, 2, 2],
        layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )
    return transformers.RTDetrConfig(
        backbone_config=backbone, encoder_in_channels=[128, 256, 512], hidden_expansion=0.5, decoder_layers=3
    )


def _vitpose(transformers: Any) -> Any:
    backbone = transformers.VitPoseBackboneConfig(out_indices=[12])
    return transformers.VitPoseConfig(backbone_config=backbone)


def _patches(config: str, **more: Any) -> Callable[[Any], Any]:
    """A configuration of a time series of 512 steps and 7 channels, as for the ETT data sets."""
    sizes = {"context_length": 512, "num_input_channels": 7, "prediction_length": 96, **more}
    return lambda transformers: getattr(transformers, config)(**sizes)


VITS_WITHOUT_NOISE = {"noise_scale": 0.0, "noise_scale_duration": 0.0}
"""With noise, as with the dropout of SpeechT5, two runs of a model differ, and Optimum's check finds a difference."""

CLASSES, DETECTION, DEPTH = "image-classification", "object-detection", "depth-estimation"
SPEECH, FEATURES, FORECAST = "automatic-speech-recognition", "feature-extraction", "time-series-forecasting"

REAL_SIZED: Mapping[str, RealSized] = {
    "segformer-b0": RealSized(
        "segmentation", "SegformerForSemanticSegmentation", lambda t: t.SegformerConfig(), "semantic-segmentation"
    ),
    "mobilenet-v2-1.4": RealSized(
        "images", "MobileNetV2ForImageClassification", lambda t: t.MobileNetV2Config(depth_multiplier=1.4), CLASSES
    ),
    "efficientnet-b0": RealSized(
        "images",
        "EfficientNetForImageClassification",
        lambda t: t.EfficientNetConfig(
            image_size=224, width_coefficient=1.0, depth_coefficient=1.0, hidden_dim=1280, dropout_rate=0.2
        ),
        CLASSES,
    ),
    "mobilevit-s": RealSized("images", "MobileViTForImageClassification", lambda t: t.MobileViTConfig(), CLASSES),
    "resnet-50": RealSized("images", "ResNetForImageClassification", lambda t: t.ResNetConfig(), CLASSES),
    "yolos-base": RealSized("detection", "YolosForObjectDetection", lambda t: t.YolosConfig(), DETECTION),
    "swin-t": RealSized("images", "SwinForImageClassification", lambda t: t.SwinConfig(), CLASSES),
    "convnext-t": RealSized("images", "ConvNextForImageClassification", lambda t: t.ConvNextConfig(), CLASSES),
    "vit-base": RealSized("images", "ViTForImageClassification", lambda t: t.ViTConfig(), CLASSES),
    "rt-detr-r18": RealSized("detection", "RTDetrForObjectDetection", _rt_detr_r18, DETECTION, selects=True),
    "detr-resnet-50": RealSized(
        "detection", "DetrForObjectDetection", lambda t: t.DetrConfig(**_resnet_backbone(t)), DETECTION
    ),
    "table-transformer": RealSized(
        "detection",
        "TableTransformerForObjectDetection",
        lambda t: t.TableTransformerConfig(**_resnet_backbone(t)),
        DETECTION,
    ),
    "d-fine": RealSized("detection", "DFineForObjectDetection", lambda t: t.DFineConfig(), DETECTION, selects=True),
    "owlvit-base": RealSized(
        "detection", "OwlViTForObjectDetection", lambda t: t.OwlViTConfig(), "zero-shot-object-detection"
    ),
    "maskformer-swin-b": RealSized(
        "segmentation", "MaskFormerForInstanceSegmentation", lambda t: t.MaskFormerConfig(), "image-segmentation"
    ),
    "sam-base": RealSized("segmentation", "SamModel", lambda t: t.SamConfig(), FEATURES),
    "dpt-base": RealSized("depth", "DPTForDepthEstimation", lambda t: t.DPTConfig(), DEPTH),
    "glpn": RealSized("depth", "GLPNForDepthEstimation", lambda t: t.GLPNConfig(), DEPTH),
    "vitpose-base": RealSized("keypoints", "VitPoseForPoseEstimation", _vitpose, "keypoint-detection"),
    "superpoint": RealSized(
        "keypoints", "SuperPointForKeypointDetection", lambda t: t.SuperPointConfig(), "keypoint-detection"
    ),
    "swin2sr": RealSized("images", "Swin2SRForImageSuperResolution", lambda t: t.Swin2SRConfig(), "image-to-image"),
    "clip-base": RealSized("images and text", "CLIPModel", lambda t: t.CLIPConfig(), "zero-shot-image-classification"),
    "whisper-tiny": RealSized(
        "speech",
        "WhisperForConditionalGeneration",
        lambda t: t.WhisperConfig(decoder_start_token_id=50257),
        "automatic-speech-recognition-with-past",
    ),
    "wav2vec2-base": RealSized("speech", "Wav2Vec2ForCTC", lambda t: t.Wav2Vec2Config(), SPEECH),
    "hubert-base": RealSized("speech", "HubertForCTC", lambda t: t.HubertConfig(), SPEECH),
    "wavlm-base": RealSized("speech", "WavLMForCTC", lambda t: t.WavLMConfig(), SPEECH),
    "ast": RealSized("sound", "ASTForAudioClassification", lambda t: t.ASTConfig(), "audio-classification"),
    "encodec": RealSized("codec", "EncodecModel", lambda t: t.EncodecConfig(), FEATURES),
    "dac": RealSized("codec", "DacModel", lambda t: t.DacConfig(), FEATURES),
    "vits": RealSized("text to speech", "VitsModel", lambda t: t.VitsConfig(**VITS_WITHOUT_NOISE), "text-to-audio"),
    "speecht5": RealSized(
        "text to speech",
        "SpeechT5ForTextToSpeech",
        lambda t: t.SpeechT5Config(speech_decoder_prenet_dropout=0.0),
        "text-to-audio",
        "SpeechT5HifiGan",
    ),
    "patchtst": RealSized(
        "time series", "PatchTSTForPrediction", _patches("PatchTSTConfig", patch_length=16, patch_stride=8), FORECAST
    ),
    "patchtsmixer": RealSized("time series", "PatchTSMixerForPrediction", _patches("PatchTSMixerConfig"), FORECAST),
    WARM_UP: RealSized(
        "images",
        "ViTForImageClassification",
        lambda t: t.ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64),
        CLASSES,
    ),
}
"""From a name to a model. Sizes that are not written here are the defaults of the configuration."""


def real_sized_model(name: str) -> Any:
    """The model with this name, with random weights, in evaluation mode.

    A weight has a variance of one over its inputs. With transformers' own, the outputs of a MobileViT are 1e-42. Models
    that select queries have transformers' own: with others, rounding decides which queries are selected.
    """
    import torch
    import transformers

    entry = REAL_SIZED[name]
    torch.manual_seed(0)
    config = entry.config(transformers)
    config.architectures = [entry.model]
    model = getattr(transformers, entry.model)(config).eval()
    if entry.vocoder is not None:
        model.vocoder = getattr(transformers, entry.vocoder)(getattr(transformers, f"{entry.vocoder}Config")()).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1 and not entry.selects:
            torch.nn.init.normal_(parameter, std=parameter[0].numel() ** -0.5)
    return model


if __name__ == "__main__":
    selected, folder = sys.argv[1:]
    real_sized_model(selected).save_pretrained(folder)

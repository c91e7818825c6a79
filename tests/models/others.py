"""Tiny models of timm, sentence-transformers and diffusers, where these are installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest
import tiny
import torch

if find_spec("torchvision"):
    # On a torch for CPUs the operators of torchvision do not load, and its import fails, with it those of transformers
    # and timm. Nothing here calls them: that they are declared is enough.
    try:
        import_module("torchvision")
    except RuntimeError:
        for operator in ("nms", "qnms"):
            signature = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            torch.library.define(f"torchvision::{operator}", signature)

WHY = {
    "diffusers": "diffusers brings 85 MB that nothing else here needs: pip install diffusers",
    "timm": "timm needs torchvision, of which the package index has builds for CUDA alone",
}

UNET = {
    "sample_size": 16,
    "in_channels": 4,
    "out_channels": 4,
    "layers_per_block": 1,
    "block_out_channels": (16, 32, 32),
    "norm_num_groups": 4,
    "down_block_types": ("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
    "cross_attention_dim": 24,
    "attention_head_dim": 4,
}
XL = {
    **UNET,
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 8,
    "use_linear_projection": True,
    "transformer_layers_per_block": (1, 2, 1),
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
}
VAE = {
    "sample_size": 32,
    "latent_channels": 4,
    "block_out_channels": (8, 16, 16),
    "norm_num_groups": 4,
    "down_block_types": ("DownEncoderBlock2D",) * 3,
    "up_block_types": ("UpDecoderBlock2D",) * 3,
}
DCAE = {
    "latent_channels": 4,
    "attention_head_dim": 8,  # of 2, some place has all of a head at zero, and PyTorch divides noise by noise
    **{f"{half}_block_types": ("ResBlock", "ResBlock", "EfficientViTBlock") for half in ("encoder", "decoder")},
    **{f"{half}_block_out_channels": (8, 8, 16) for half in ("encoder", "decoder")},
    **{f"{half}_layers_per_block": (1, 1, 1) for half in ("encoder", "decoder")},
    **{f"{half}_qkv_multiscales": ((), (), (5,)) for half in ("encoder", "decoder")},
    "upsample_block_type": "interpolate",
    "downsample_block_type": "Conv",
}
JOINT = {"joint_attention_dim": 24, "pooled_projection_dim": 20, "num_layers": 2}
FLUX = {
    **JOINT,
    "in_channels": 4,
    "num_single_layers": 2,
    "attention_head_dim": 16,
    "num_attention_heads": 2,
    "axes_dims_rope": (4, 4, 8),
}
SD3 = {
    **JOINT,
    "sample_size": 16,
    "patch_size": 2,
    "in_channels": 4,
    "out_channels": 4,
    "attention_head_dim": 8,
    "num_attention_heads": 4,
    "caption_projection_dim": 32,
    "pos_embed_max_size": 24,
}
SANA = {
    "in_channels": 4,
    "out_channels": 4,
    "num_layers": 2,
    "attention_head_dim": 4,
    "num_attention_heads": 4,
    "num_cross_attention_heads": 2,
    "cross_attention_head_dim": 8,
    "cross_attention_dim": 16,
    "caption_channels": 24,
    "sample_size": 16,
}


def library(name: str) -> Any:
    """A library, or the test is skipped that needs it."""
    if not find_spec(name):
        pytest.skip(WHY[name])
    return import_module(name)


def uneven(make: Callable[[], Any]) -> Any:
    """A model of weights that matter: none constant, none near zero."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = make().eval()
        with torch.no_grad():
            for weights in model.parameters():
                if weights.dim() > 1:
                    weights.copy_(torch.randn_like(weights) / weights[0].numel() ** 0.5)
        tiny._disturb(model)
    return model


def diffused(name: str, **sizes: Any) -> Callable[[], Any]:
    """What makes a model of diffusers of a class."""
    return lambda: uneven(lambda: getattr(library("diffusers"), name)(**sizes))


def seen(name: str, **told: Any) -> Callable[[], Any]:
    """What makes a model of timm."""
    return lambda: uneven(lambda: library("timm").create_model(name, **told))


def reading(loader: str, **told: Any) -> Callable[[], Any]:
    """What makes the half of CLIP that reads."""
    return lambda: tiny.model("clip_text_model", loader, projection_dim=16, **told)


MODELS: Mapping[str, Mapping[str, Callable[[], Any]]] = {
    "diffusers.clip-text": {
        "default": reading("CLIPTextModel"),
        "hidden_states": reading("CLIPTextModel", output_hidden_states=True),
    },
    "diffusers.clip-text-with-projection": {
        "default": reading("CLIPTextModelWithProjection"),
        "hidden_states": reading("CLIPTextModelWithProjection", output_hidden_states=True),
    },
    "diffusers.dcae-decoder": {"default": diffused("AutoencoderDC", **DCAE)},
    "diffusers.dcae-encoder": {"default": diffused("AutoencoderDC", **DCAE)},
    "diffusers.flux-transformer-2d": {
        "default": diffused("FluxTransformer2DModel", **FLUX),
        "guidance": diffused("FluxTransformer2DModel", **FLUX, guidance_embeds=True),
    },
    "diffusers.gemma2-text-encoder": {"default": lambda: tiny.model("gemma2", "Gemma2Model")},
    "diffusers.sana-transformer": {"default": diffused("SanaTransformer2DModel", **SANA)},
    "diffusers.sd3-transformer-2d": {"default": diffused("SD3Transformer2DModel", **SD3)},
    "diffusers.t5-encoder": {"default": lambda: tiny.model("t5", "T5EncoderModel")},
    "diffusers.unet-2d-condition": {
        "default": diffused("UNet2DConditionModel", **UNET),
        "sdxl": diffused("UNet2DConditionModel", **XL, projection_class_embeddings_input_dim=20 + 6 * 8),
        "sdxl_refiner": diffused("UNet2DConditionModel", **XL, projection_class_embeddings_input_dim=20 + 5 * 8),
        "lcm": diffused("UNet2DConditionModel", **UNET, time_cond_proj_dim=12),
    },
    "diffusers.vae-decoder": {"default": diffused("AutoencoderKL", **VAE)},
    "diffusers.vae-encoder": {"default": diffused("AutoencoderKL", **VAE)},
    "timm.default-timm-config": {
        "default": seen("resnet18"),
        "fixed": seen("vit_tiny_patch16_224", depth=2, num_classes=7),
    },
}
"""Row -> preset -> what makes a model."""

TOLD: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("diffusers.unet-2d-condition", "sdxl_refiner"): {"requires_aesthetics_score": True},
}
"""What the place in a pipeline says of a model."""


def sentences(folder: Any, model_type: str = "bert", pooling: str = "mean") -> Any:
    """A model of sentence-transformers: tokens, a pooling, a projection, a unit length; its files here."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tiny.model(model_type).save_pretrained(folder)
    words = Tokenizer(models.WordLevel({f"w{index}": index for index in range(100)}, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=words, pad_token="w0").save_pretrained(folder)
    modules = (Transformer(str(folder)), Pooling(32, pooling_mode=pooling), Dense(32, 12), Normalize())
    return SentenceTransformer(modules=list(modules)).eval()


def pair() -> Any:
    """What sentence-transformers makes of CLIP, without what makes numbers of images, which needs another package."""
    model = tiny.model("clip")

    def forward(features: Mapping[str, Any]) -> dict[str, Any]:
        if features["modality"] == "image":
            made = model.get_image_features(pixel_values=features["pixel_values"])
        else:
            made = model.get_text_features(features["input_ids"], attention_mask=features["attention_mask"])
        return {**features, "sentence_embedding": made.pooler_output}

    found = torch.nn.Module()
    found.inner, found.forward, found.config = model, forward, model.config
    return found

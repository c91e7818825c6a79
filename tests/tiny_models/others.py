"""Tiny models of timm, sentence-transformers and diffusers, where these are installed."""

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest
import tiny
import torch
from sizes import DIFFUSERS

if find_spec("torchvision"):
    # With a CPU build of torch, torchvision cannot load its operators and its import fails, and so do those of
    # transformers and timm. No test calls these operators: their declarations are enough.
    try:
        import_module("torchvision")
    except RuntimeError:
        for operator in ("nms", "qnms"):
            signature = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            torch.library.define(f"torchvision::{operator}", signature)

WHY_SKIPPED = {
    "diffusers": "diffusers and its dependencies take 85 MB: pip install diffusers",
    "timm": "timm needs torchvision, of which the package index has builds for CUDA only",
}


def library(name: str) -> Any:
    """A library; the test is skipped where it is not installed."""
    if not find_spec(name):
        pytest.skip(WHY_SKIPPED[name])
    return import_module(name)


def random_model(build: Callable[[], Any]) -> Any:
    """A model with random weights: no tensor is constant or near zero."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = build().eval()
        with torch.no_grad():
            for weights in model.parameters():
                if weights.dim() > 1:
                    weights.copy_(torch.randn_like(weights) / weights[0].numel() ** 0.5)
        tiny.disturb(model)
    return model


def diffusers_model(name: str, **sizes: Any) -> Callable[[], Any]:
    return lambda: random_model(lambda: getattr(library("diffusers"), name)(**sizes))


def sized_model(name: str, **options: Any) -> Callable[[], Any]:
    """A function that builds a model of a class of diffusers with the sizes of sizes.json."""
    return diffusers_model(name, **{**DIFFUSERS[name], **options})


def timm_model(name: str, **options: Any) -> Callable[[], Any]:
    return lambda: random_model(lambda: library("timm").create_model(name, **options))


def clip_text_model(loader: str, **options: Any) -> Callable[[], Any]:
    return lambda: tiny.model("clip_text_model", loader, projection_dim=16, **options)


XL = DIFFUSERS["UNet2DConditionModel of SDXL"]

MODELS: Mapping[str, Mapping[str, Callable[[], Any]]] = {
    "diffusers.clip-text": {
        "default": clip_text_model("CLIPTextModel"),
        "hidden_states": clip_text_model("CLIPTextModel", output_hidden_states=True),
    },
    "diffusers.clip-text-with-projection": {
        "default": clip_text_model("CLIPTextModelWithProjection"),
        "hidden_states": clip_text_model("CLIPTextModelWithProjection", output_hidden_states=True),
    },
    "diffusers.dcae-decoder": {"default": sized_model("AutoencoderDC")},
    "diffusers.dcae-encoder": {"default": sized_model("AutoencoderDC")},
    "diffusers.flux-transformer-2d": {
        "default": sized_model("FluxTransformer2DModel"),
        "guidance": sized_model("FluxTransformer2DModel", guidance_embeds=True),
    },
    "diffusers.gemma2-text-encoder": {"default": lambda: tiny.model("gemma2", "Gemma2Model")},
    "diffusers.sana-transformer": {"default": sized_model("SanaTransformer2DModel")},
    "diffusers.sd3-transformer-2d": {"default": sized_model("SD3Transformer2DModel")},
    "diffusers.t5-encoder": {"default": lambda: tiny.model("t5", "T5EncoderModel")},
    "diffusers.unet-2d-condition": {
        "default": sized_model("UNet2DConditionModel"),
        "sdxl": sized_model("UNet2DConditionModel", **XL, projection_class_embeddings_input_dim=20 + 6 * 8),
        "sdxl_refiner": sized_model("UNet2DConditionModel", **XL, projection_class_embeddings_input_dim=20 + 5 * 8),
        "lcm": sized_model("UNet2DConditionModel", time_cond_proj_dim=12),
    },
    "diffusers.vae-decoder": {"default": sized_model("AutoencoderKL")},
    "diffusers.vae-encoder": {"default": sized_model("AutoencoderKL")},
    "timm.default-timm-config": {
        "default": timm_model("resnet18"),
        "fixed": timm_model("vit_tiny_patch16_224", depth=2, num_classes=7),
        "windows": timm_model(
            "hieradet_small", embed_dim=16, stages=(1, 2, 2, 1), global_att_blocks=(4,), num_classes=7
        ),
    },
}
"""{row: {preset: a function that builds a model}}."""

EXTRA_CONFIG: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("diffusers.unet-2d-condition", "sdxl_refiner"): {"requires_aesthetics_score": True}
}
"""(row, preset) -> values that the pipeline adds to the configuration of the model."""


def sentence_transformer(folder: Any, model_type: str = "bert", pooling: str = "mean") -> Any:
    """A model of sentence-transformers: an encoder, a pooling, a projection, a norm. `folder` gets its files."""
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


def clip_of_sentence_transformers() -> Any:
    """What sentence-transformers builds from CLIP, without its image processor, which needs another package."""
    clip = tiny.model("clip")

    def forward(features: Mapping[str, Any]) -> dict[str, Any]:
        if features["modality"] == "image":
            output = clip.get_image_features(pixel_values=features["pixel_values"])
        else:
            output = clip.get_text_features(features["input_ids"], attention_mask=features["attention_mask"])
        return {**features, "sentence_embedding": output.pooler_output}

    module = torch.nn.Module()
    module.inner, module.forward, module.config = clip, forward, clip.config
    return module

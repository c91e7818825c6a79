"""Pipelines of diffusers, most with components that no row knows: watched, exported, and run on ONNX Runtime."""

import re
from pathlib import Path

import numpy as np
import others
import pytest
import tiny
import torch
import transformers
from attrs import evolve
from tokenizers import Tokenizer, models, pre_tokenizers

import onnxfn
from onnxfn.export.jobs.request import request_of
from onnxfn.export.run.diffusers import export_pipeline_request

WORDS = ["a", "cat", "dog", "on", "the", "moon", "red"]
BLOCKS = {
    "block_out_channels": (32, 64),
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
    "layers_per_block": 1,
    "in_channels": 4,
    "out_channels": 4,
    "cross_attention_dim": 32,
}
CONTROL = {name: value for name, value in BLOCKS.items() if name not in ("up_block_types", "out_channels")}
CONTROL |= {"conditioning_embedding_out_channels": (16, 32)}
VAE = {
    "block_out_channels": (32, 64),
    "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2,
    "latent_channels": 4,
}
PIXART = {"sample_size": 8, "num_layers": 2, "patch_size": 2, "attention_head_dim": 8, "num_attention_heads": 3}
PIXART |= {"caption_channels": 32, "in_channels": 4, "cross_attention_dim": 24, "out_channels": 8}
AURA = {"patch_size": 2, "in_channels": 4, "num_mmdit_layers": 1, "num_single_dit_layers": 1, "out_channels": 4}
AURA |= {"attention_head_dim": 8, "num_attention_heads": 4, "caption_projection_dim": 32, "joint_attention_dim": 32}
WAN = {"num_attention_heads": 2, "attention_head_dim": 12, "text_dim": 32, "freq_dim": 256, "ffn_dim": 32}
WAN |= {"num_layers": 2, "rope_max_seq_len": 32}
MOVQ = {**VAE, "norm_num_groups": 8, "norm_type": "spatial", "num_vq_embeddings": 12, "vq_embed_dim": 4}
KANDINSKY = {"time_embedding_dim": 4, "groups": 2, "attention_head_dim": 4, "block_out_channels": (32, 64)}
KANDINSKY |= {"cross_attention_dim": 4, "encoder_hid_dim": 32}
LATENTS, FLOW = {"vae": ("AutoencoderKL", VAE)}, {"scheduler": ("FlowMatchEulerDiscreteScheduler", {})}
DIFFUSION = {**LATENTS, "scheduler": ("DDIMScheduler", {}), "unet": ("UNet2DConditionModel", BLOCKS)}
VIDEO = {"vae": ("AutoencoderKLWan", {"base_dim": 3, "dim_mult": [1, 1, 1, 1], "num_res_blocks": 1})}

# Name: the components that the pipeline has besides a tokenizer, and the arguments of its call.
PIPELINES = {
    "StableDiffusionPipeline": (DIFFUSION, {}),
    "StableDiffusionControlNetPipeline": ({**DIFFUSION, "controlnet": ("ControlNetModel", CONTROL)}, {"image": 0}),
    "PixArtAlphaPipeline": (
        {**DIFFUSION, "transformer": ("PixArtTransformer2DModel", {**PIXART, "norm_type": "ada_norm_single"})},
        {"use_resolution_binning": False, "max_sequence_length": 16},
    ),
    "AuraFlowPipeline": (
        {**LATENTS, **FLOW, "transformer": ("AuraFlowTransformer2DModel", {**AURA, "pos_embed_max_size": 4096})},
        {"max_sequence_length": 16},
    ),
    "WanPipeline": (
        {**VIDEO, **FLOW, "transformer": ("WanTransformer3DModel", WAN)},
        {"num_frames": 9, "max_sequence_length": 16},
    ),
    "Kandinsky3Pipeline": (
        {
            "movq": ("VQModel", {**MOVQ, "layers_per_block": 1}),
            "unet": ("Kandinsky3UNet", KANDINSKY),
            "scheduler": ("DDPMScheduler", {}),
        },
        {},
    ),
}
DEFAULT = "StableDiffusionControlNetPipeline"


def tokenizer():
    words = {word: number for number, word in enumerate(["<pad>", "</s>", "<unk>", *WORDS])}
    text = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    text.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>", "model_max_length": 16}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=text, **special)


def text_encoder(name):
    if name.startswith("StableDiffusion"):
        return tiny.model("clip_text_model", "CLIPTextModel", hidden_size=32, max_position_embeddings=16)
    return tiny.model("t5", "T5EncoderModel", d_model=32)


def pipeline(name):
    diffusers = others.library("diffusers")
    components = {"tokenizer": tokenizer(), "text_encoder": text_encoder(name)}
    for component, (kind, sizes) in PIPELINES[name][0].items():
        is_model = component != "scheduler"
        components[component] = others.diffusers_model(kind, **sizes)() if is_model else getattr(diffusers, kind)()
    known = getattr(diffusers, name)._get_signature_types()
    components = {each: value for each, value in components.items() if each in known}
    missing = {each: None for each in ("safety_checker", "feature_extractor", "transformer_2") if each in known}
    extra = {"requires_safety_checker": False} if "safety_checker" in known else {}
    made_of = getattr(diffusers, name)(**components, **missing, **extra)
    made_of.set_progress_bar_config(disable=True)
    return made_of


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.sweep] * (name != DEFAULT)) for name in PIPELINES]
)
def test_a_pipeline_draws_the_same_on_onnx_runtime(name, tmp_path):
    diffusion, arguments = pipeline(name), PIPELINES[name][1]

    def drawn(prompt, height, width):
        random = torch.Generator().manual_seed(0)
        sizes = {"height": height, "width": width}
        if "image" in arguments:
            sizes = {"image": torch.rand(len(prompt), 3, height, width, generator=random)}
        with torch.no_grad():
            options = {"num_inference_steps": 2, "output_type": "pt", **arguments}
            result = diffusion(prompt=prompt, generator=random, **options | sizes)
        return torch.as_tensor(result[0])

    runs = [lambda: drawn(["a cat"], 64, 64), lambda: drawn(["a cat", "the red dog on the moon"], 64, 96)]
    runs.append(lambda: drawn(["a cat"], 96, 128))
    results = onnxfn.export_pipeline(diffusion, tmp_path / "out", run=runs)
    assert all(result.report.passed for result in results.values())
    models_of = [each for each, model in diffusion.components.items() if isinstance(model, torch.nn.Module)]
    components = {part.removesuffix("_encoder").removesuffix("_decoder") for part in results}
    assert components == {each.removesuffix("_encoder") for each in models_of}
    expected = drawn(["a dog"], 96, 160)
    with onnxfn.assembled(diffusion, tmp_path / "out") as parts:
        torch.testing.assert_close(drawn(["a dog"], 96, 160), expected, rtol=1e-3, atol=1e-3)
    assert parts


UNET = {"sample_size": 16, "block_out_channels": (32, 64), "layers_per_block": 1, "norm_num_groups": 4}
UNET |= {"down_block_types": ("DownBlock2D", "AttnDownBlock2D"), "up_block_types": ("AttnUpBlock2D", "UpBlock2D")}


def test_the_command_line_watches_a_saved_pipeline_run(tmp_path):
    library = others.library("diffusers")
    unet = others.diffusers_model("UNet2DModel", **UNET)()
    library.DDIMPipeline(unet, library.DDIMScheduler()).save_pretrained(tmp_path / "pipeline")
    runs = [f"batch_size={size},num_inference_steps=2,output_type=np" for size in (1, 2)]
    request = request_of(f"{tmp_path}/pipeline", tmp_path / "out", {"library": "diffusers", "run": runs})
    results = export_pipeline_request(request)
    assert dict(results["unet"].inputs["sample"]) == {0: "batch_size"}
    by_itself = export_pipeline_request(evolve(request, runs=(), path=f"{tmp_path}/by itself"))
    assert by_itself["unet"].inputs == results["unet"].inputs
    with pytest.raises(onnxfn.InvalidSpec, match="--run 'a cat' has no value for 'a cat'; write --run"):
        export_pipeline_request(evolve(request, runs=["a cat"], path=f"{tmp_path}/other"))


@pytest.mark.sweep
def test_the_page_on_pictures_draws_that_of_pytorch(tmp_path, monkeypatch):
    """With a tiny pipeline of the page's name, and a smaller picture."""
    monkeypatch.chdir(tmp_path)
    diffusion = pipeline("StableDiffusionPipeline")
    diffusion.unet.register_to_config(sample_size=16)
    noises = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
    noises |= {"clip_sample": False, "set_alpha_to_one": False, "steps_offset": 1}
    diffusion.scheduler = others.library("diffusers").DDIMScheduler(**noises)
    diffusion.save_pretrained("stable-diffusion-v1-5/stable-diffusion-v1-5")
    page = (Path(onnxfn.__file__).parent / "guide" / "diffusion.md").read_text().replace("64, 64", "16, 16")
    names = {}
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(code, names)
    latents = torch.from_numpy(np.random.default_rng(0).standard_normal((1, 4, 16, 16)).astype(np.float32))
    drawn = names["pipeline"]("a red cat on the moon", latents=latents, num_inference_steps=20, output_type="np")
    np.testing.assert_allclose((names["pixels"] / 2 + 0.5).clip(0, 1), drawn.images[0], atol=1e-4)
    assert Path("cat.png").exists()
    assert Path("assembled.png").exists()

"""Models of timm, sentence-transformers and diffusers: rows, as in Optimum's table: see tests/contract."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from onnxfn.architectures.families.multimodal import (
    ended,
    hidden_states,
    image_reads,
    images,
    reading,
    several_texts,
    texts,
)
from onnxfn.architectures.families.text import text_cases, text_dummies, text_reads
from onnxfn.specs.compose import compose
from onnxfn.specs.dummies import generates, sized
from onnxfn.specs.facts import TOKENS, always, case, checks, fixes, gives, loads, patched, runs, serves, takes
from onnxfn.specs.getters import (
    constant,
    count,
    difference,
    either,
    equals,
    from_config,
    if_else,
    item,
    power,
    product,
    reads,
)
from onnxfn.specs.records import Source
from onnxfn.specs.spec import ExportSpec

# timm: some models have places for the patches of one size of image, and say so.
timm = compose(
    takes("pixel_values", "batch_size num_channels= height width", "pixels", kind="float"),
    runs("timm.classifier"),
    generates("pixels", "normal"),
    reads(num_channels=item("input_size", 0)),
    sized(batch_size=2, height=from_config(item("input_size", 1)), width=from_config(item("input_size", 2))),
    fixes("height", item("input_size", 1), when="fixed_input_size"),
    fixes("width", item("input_size", 2), when="fixed_input_size"),
    case("one", sized(batch_size=1, height=192, width=256)),
    case("several", sized(batch_size=3, height=288, width=160)),
    serves("image-classification", gives("logits", "batch_size _")),
)

# sentence-transformers: `forward` takes and gives a dict of features.
sentences = compose(
    text_dummies,
    text_cases,
    text_reads,
    takes("input_ids", TOKENS, "token_ids", path=("input", "input_ids")),
    takes("attention_mask", TOKENS, "padding_mask", path=("input", "attention_mask")),
    serves(
        "feature-extraction",
        gives("token_embeddings", f"{TOKENS} _"),
        gives("sentence_embedding", "batch_size _"),
    ),
)

# Texts and images, any number of each.
clip_sentences = compose(
    text_dummies,
    several_texts,
    ended,
    generates("pixels", "normal"),
    reads(vocab_size="text_config.vocab_size"),
    image_reads(),
    images(),
    texts,
    runs("sentence_transformers.text_and_image_encoder"),
    serves("feature-extraction", gives("text_embeds", "text_batch_size _"), gives("image_embeds", "batch_size _")),
)

# The text encoders of diffusers' pipelines. Some pipelines read the states of a layer before the last: a configuration
# says so, the model's or that of its place in the pipeline.
LAST = gives("last_hidden_state", f"{TOKENS} _")
clip_text_part = compose(reading, ended, hidden_states(f"{TOKENS} _"), always(output_hidden_states=True))
clip_text = compose(
    clip_text_part,
    serves("feature-extraction", loads("CLIPTextModel"), LAST, gives("pooler_output", "batch_size _")),
)
clip_text_with_projection = compose(
    clip_text_part,
    serves("feature-extraction", loads("CLIPTextModelWithProjection"), gives("text_embeds", "batch_size _"), LAST),
)
t5_text = compose(reading, serves("feature-extraction", loads("T5EncoderModel"), LAST))
gemma2_text = compose(
    reading,
    takes("attention_mask", TOKENS, "padding_mask"),
    always(use_cache=False),
    checks(mask_input="attention_mask"),
    serves("feature-extraction", loads("Gemma2Model"), LAST),
)

# What removes noise from a picture, said in its own space.
PICTURE = "batch_size num_channels= height width"
CLEANED = "batch_size _ height width"

denoiser = compose(
    generates("latents", "normal"),
    generates("hidden_states", "normal"),
    generates("timesteps", "uniform", low=1.0, high=999.0),
    reads(num_channels="in_channels", side=either("sample_size", constant(64))),
    sized(
        batch_size=2,
        sequence_length=16,
        height=from_config(either(item("side", 0), "side")),
        width=from_config(either(item("side", 1), "side")),
    ),
    case("one", sized(batch_size=1, sequence_length=7, height=8, width=24)),
    case("several", sized(batch_size=3, sequence_length=21, height=24, width=16)),
    takes("encoder_hidden_states", "batch_size sequence_length hidden_size=", "hidden_states", kind="float"),
    always(return_dict=True),
    # A step near 1000 goes into sines: PyTorch's float32 is 7e-5 from its float64 in a tiny Sana, and where weights
    # are half as large again, 1e-4 (UNet) to 5e-4 (SD3).
    checks(atol=1e-4),
)
"""What removes noise from a picture under a text; `hidden_size` is how wide the states of the text are."""


def floats(name: str, axes: str, generator: str = "hidden_states", *, inside: str = "", **told: Source) -> ExportSpec:
    """A spec of an input of real numbers, `inside` an argument that is a dict."""
    return takes(name, axes, generator, kind="float", path=(inside, name) if inside else (), **told)


any_batch = patched(
    "diffusers.models.upsampling:Upsample2D.forward",
    by="diffusers.upsampled_features",
    why="looks whether 64 pictures or more are given",
)
two_texts = equals("addition_embed_type", "text_time")
unet = compose(
    floats("sample", PICTURE, "latents"),
    floats("timestep", "", "timesteps"),
    denoiser,
    reads(
        hidden_size="cross_attention_dim",
        num_time_ids=if_else("requires_aesthetics_score", constant(5), constant(6)),
        text_encoder_projection_dim=either(
            "text_encoder_projection_dim",
            difference("projection_class_embeddings_input_dim", product("num_time_ids", "addition_time_embed_dim")),
        ),
    ),
    floats("text_embeds", "batch_size text_encoder_projection_dim=", inside="added_cond_kwargs", when=two_texts),
    floats("time_ids", "batch_size num_time_ids=", "timesteps", inside="added_cond_kwargs", when=two_texts),
    any_batch,
    patched(
        "diffusers.models.unets.unet_2d_condition:UNet2DConditionModel.num_upsamplers",
        by="diffusers.NUM_UPSAMPLERS",
        why="each half is doubled to the size that it was halved from, which sides of any length need",
    ),
    case("several", sized(height=21, width=14)),
    floats("timestep_cond", "batch_size time_cond_proj_dim=", when="time_cond_proj_dim"),
    serves("semantic-segmentation", gives("out_sample", CLEANED, path=("sample",))),
)

projected = compose(
    floats("pooled_projections", "batch_size pooled_projection_dim="),
    floats("timestep", "step", "timesteps"),
    reads(hidden_size="joint_attention_dim"),
    sized(step=2),
    case("one", sized(step=1)),
    case("several", sized(step=3)),
)

sd3 = compose(
    floats("hidden_states", PICTURE, "latents"),
    denoiser,
    projected,
    serves("semantic-segmentation", gives("out_hidden_states", CLEANED, path=("sample",))),
)

# Places of words and of patches, and how close to what was asked.
PACKED = "batch_size packed_height_width num_channels="
flux = compose(
    floats("hidden_states", PACKED, "latents"),
    denoiser,
    projected,
    generates("timesteps", "uniform", low=0.0, high=1.0),
    generates("places", "integers", high=64),
    takes("txt_ids", "sequence_length 3", "places"),
    takes("img_ids", "packed_height_width 3", "places"),
    floats("guidance", "batch_size", "timesteps", when="guidance_embeds"),
    sized(packed_height_width=1024),
    case("one", sized(packed_height_width=24)),
    case("several", sized(packed_height_width=60)),
    serves(
        "semantic-segmentation",
        gives("out_hidden_states", "batch_size packed_height_width _", path=("sample",)),
    ),
)

sana = compose(
    floats("hidden_states", PICTURE, "latents"),
    denoiser,
    takes("encoder_attention_mask", "batch_size sequence_length", "padding_mask"),
    generates("padding_mask", "mask", padding="right"),
    floats("timestep", "batch_size", "timesteps"),
    reads(hidden_size="caption_channels", side=constant(64)),
    serves("semantic-segmentation", gives("out_hidden_states", CLEANED, path=("sample",))),
)

# Between a picture and its own space. Nothing is drawn: the encoder gives the parameters of what it would draw from.
painter = compose(any_batch, generates("pixels", "normal"), sized(batch_size=2))


def encoder(side: str, part: str, *specs: ExportSpec, gives_: str) -> ExportSpec:
    """From a picture to its own space."""
    height, width = f"{side}height", f"{side}width"
    return compose(
        painter,
        floats("sample", f"batch_size num_channels= {height} {width}", "pixels"),
        reads(num_channels="in_channels"),
        runs(f"diffusers.{part}"),
        case("one", sized(batch_size=1, **{height: 64, width: 96})),
        case("several", sized(batch_size=3, **{height: 96, width: 32})),
        serves("semantic-segmentation", gives(gives_, f"batch_size _ {height}//scale {width}//scale")),
        *specs,
    )


def decoder(part: str, *specs: ExportSpec) -> ExportSpec:
    """From its own space to a picture."""
    return compose(
        painter,
        floats("latent_sample", "batch_size num_channels= latent_height latent_width", "pixels"),
        reads(num_channels="latent_channels"),
        sized(latent_height=64, latent_width=64),
        case("one", sized(batch_size=1, latent_height=6, latent_width=9)),
        case("several", sized(batch_size=3, latent_height=5, latent_width=4)),
        runs(f"diffusers.{part}"),
        serves("semantic-segmentation", gives("sample", "batch_size _ latent_height*scale latent_width*scale")),
        *specs,
    )


def halved(blocks: str) -> ExportSpec:
    """A spec of how much smaller its own space is: each block but the last halves height and width."""
    return reads(scale=power(constant(2), difference(count(blocks), constant(1))))


vae_side = from_config("sample_size")
ROWS: Mapping[str, ExportSpec] = MappingProxyType(
    {
        "diffusers.clip-text": clip_text,
        "diffusers.clip-text-with-projection": clip_text_with_projection,
        "diffusers.dcae-decoder": decoder("vae_decoder", halved("encoder_block_out_channels")),
        "diffusers.dcae-encoder": encoder(
            "",
            "dcae_encoder",
            halved("encoder_block_out_channels"),
            sized(height=64, width=64),
            gives_="latent_sample",
        ),
        "diffusers.flux-transformer-2d": flux,
        "diffusers.gemma2-text-encoder": gemma2_text,
        "diffusers.sana-transformer": sana,
        "diffusers.sd3-transformer-2d": sd3,
        "diffusers.t5-encoder": t5_text,
        "diffusers.unet-2d-condition": unet,
        "diffusers.vae-decoder": decoder("vae_decoder", halved("down_block_types")),
        "diffusers.vae-encoder": encoder(
            "sample_",
            "vae_encoder",
            halved("down_block_types"),
            sized(sample_height=vae_side, sample_width=vae_side),
            gives_="latent_parameters",
        ),
        "sentence_transformers.clip": clip_sentences,
        "sentence_transformers.transformer": sentences,
        "timm.default-timm-config": timm,
    }
)

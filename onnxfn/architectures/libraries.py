"""Models of timm, sentence-transformers and diffusers, with Optimum's inputs and tasks (tests/contract)."""

from collections.abc import Mapping
from types import MappingProxyType

from onnxfn.architectures.families.multimodal import (
    layer_states,
    text_batch_cases,
    text_batch_inputs,
    text_model_inputs,
    text_with_end,
)
from onnxfn.architectures.families.rows import sized_in
from onnxfn.architectures.families.text import text_cases, text_dummies, text_reads
from onnxfn.architectures.families.vision import image_inputs, image_reads
from onnxfn.specs.algebra.compose import compose, from_config, reads
from onnxfn.specs.algebra.dummies import generates, sized
from onnxfn.specs.algebra.facts import TOKENS, always, case, checks, fixes, gives, loads, runs, serves, takes
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.records import Getter, Source

# The number of texts and the number of images may differ.
clip_sentence_encoder: ExportSpec = compose(
    text_dummies,
    text_batch_cases,
    text_with_end,
    reads(vocab_size="text_config.vocab_size"),
    image_reads(),
    image_inputs(),
    text_batch_inputs,
    runs("libraries.text_and_image_encoder"),
    serves("feature-extraction", gives("text_embeds", "text_batch_size _"), gives("image_embeds", "batch_size _")),
)

# The text encoders of diffusers' pipelines. Some pipelines use the hidden states of an earlier layer. Then
# `output_hidden_states` is in the configuration of the model, or in the one it has as a part of the pipeline.
LAST_HIDDEN_STATE = gives("last_hidden_state", f"{TOKENS} _")
clip_text_encoder: ExportSpec = compose(
    text_model_inputs, text_with_end, layer_states(f"{TOKENS} _"), always(output_hidden_states=True)
)
clip_text: ExportSpec = compose(
    clip_text_encoder,
    serves("feature-extraction", loads("CLIPTextModel"), LAST_HIDDEN_STATE, gives("pooler_output", "batch_size _")),
)

# Models that remove noise from latents.
LATENT_AXES = "batch_size num_channels= height width"

denoiser: ExportSpec = compose(
    generates("timesteps", "uniform", low=1.0, high=999.0),
    reads(num_channels="in_channels", side="sample_size or 64"),
    sized_in(
        "one several",
        batch_size=(2, 1, 3),
        sequence_length=(16, 7, 21),
        height=(from_config("side[0] or side"), 8, 24),
        width=(from_config("side[1] or side"), 24, 16),
    ),
    takes("encoder_hidden_states", "batch_size sequence_length hidden_size=", "normal", kind="float"),
    always(return_dict=True),
)
"""Models that remove noise from latents, conditioned on a text: UNet, SD3, Flux, Sana.

The input `encoder_hidden_states` has the `hidden_size` of the text encoder. A row adds the latents and the timestep.
"""

OPTIMUM_TASK = "semantic-segmentation"
"""Optimum's name for what models of diffusers do."""


def denoises(name: str, axes: str = "batch_size _ height width") -> ExportSpec:
    """A spec of the output of a model that removes noise."""
    return serves(OPTIMUM_TASK, gives(name, axes, path=("sample",), kind="float"))


def float_input(name: str, axes: str, generator: str = "normal", *, inside: str = "", **options: Source) -> ExportSpec:
    """A spec of a float input. `inside`: the argument of `forward` that is a dict with it, if any."""
    return takes(name, axes, generator, kind="float", path=(inside, name) if inside else (), **options)


HAS_POOLED_TEXT = "addition_embed_type == 'text_time'"
unet: ExportSpec = compose(
    float_input("sample", LATENT_AXES),
    float_input("timestep", "", "timesteps"),
    denoiser,
    reads(
        hidden_size="cross_attention_dim",
        num_time_ids="5 if requires_aesthetics_score else 6",
        text_encoder_projection_dim=(
            "text_encoder_projection_dim or "
            "projection_class_embeddings_input_dim - num_time_ids * addition_time_embed_dim"
        ),
    ),
    float_input(
        "text_embeds", "batch_size text_encoder_projection_dim=", inside="added_cond_kwargs", when=HAS_POOLED_TEXT
    ),
    float_input("time_ids", "batch_size num_time_ids=", "timesteps", inside="added_cond_kwargs", when=HAS_POOLED_TEXT),
    case("several", sized(height=21, width=14)),
    float_input("timestep_cond", "batch_size time_cond_proj_dim=", when="time_cond_proj_dim"),
    denoises("out_sample"),
)

pooled_projection_inputs: ExportSpec = compose(
    float_input("pooled_projections", "batch_size pooled_projection_dim="),
    float_input("timestep", "step", "timesteps"),
    reads(hidden_size="joint_attention_dim"),
    sized_in("one several", step=(2, 1, 3)),
)

# Autoencoders between images and latents. Nothing is sampled: the encoder returns the parameters of the distribution.
autoencoder: ExportSpec = sized_in("one several", batch_size=(2, 1, 3))


def vae_encoder(side: str, *specs: ExportSpec, output: str, path: tuple[str, ...]) -> ExportSpec:
    """A spec of an autoencoder's encoder: AutoencoderKL, AutoencoderDC; `side`: a prefix of its sides' symbols."""
    height, width = f"{side}height", f"{side}width"
    latents = gives(output, f"batch_size _ {height}//scale {width}//scale", path=path, kind="float")
    return compose(
        autoencoder,
        takes("sample", f"batch_size num_channels= {height} {width}", "normal", kind="float", path=("x",)),
        reads(num_channels="in_channels"),
        runs("self.encode"),
        sized_in("one several", **{height: (None, 64, 96), width: (None, 96, 32)}),
        serves(OPTIMUM_TASK, latents),
        *specs,
    )


def vae_decoder(*specs: ExportSpec) -> ExportSpec:
    """A spec of the decoder of an autoencoder, from latents to images: AutoencoderKL, AutoencoderDC."""
    latents = "batch_size num_channels= latent_height latent_width"
    images = "batch_size _ latent_height*scale latent_width*scale"
    return compose(
        autoencoder,
        takes("latent_sample", latents, "normal", kind="float", path=("z",)),
        reads(num_channels="latent_channels"),
        sized_in("one several", latent_height=(64, 6, 5), latent_width=(64, 9, 4)),
        runs("self.decode"),
        serves(OPTIMUM_TASK, gives("sample", images, kind="float")),
        *specs,
    )


def latent_scale(blocks: str) -> ExportSpec:
    """A spec of `scale`, how many times smaller latents are than images: each block but the last halves them."""
    return reads(scale=f"2 ** (len({blocks}) - 1)")


sample_size: Getter = from_config("sample_size")
ROWS: Mapping[str, ExportSpec] = MappingProxyType(
    {
        "diffusers.clip-text": clip_text,
        "diffusers.clip-text-with-projection": compose(
            clip_text_encoder,
            serves(
                "feature-extraction",
                loads("CLIPTextModelWithProjection"),
                gives("text_embeds", "batch_size _"),
                LAST_HIDDEN_STATE,
            ),
        ),
        "diffusers.dcae-decoder": vae_decoder(latent_scale("encoder_block_out_channels")),
        "diffusers.dcae-encoder": vae_encoder(
            "",
            latent_scale("encoder_block_out_channels"),
            sized(height=64, width=64),
            output="latent_sample",
            path=("latent",),
        ),
        "diffusers.flux-transformer-2d": compose(
            # `txt_ids` and `img_ids` are the positions of tokens and of patches. `guidance` is the guidance scale.
            float_input("hidden_states", "batch_size packed_height_width num_channels="),
            denoiser,
            pooled_projection_inputs,
            generates("timesteps", "uniform", low=0.0, high=1.0),
            generates("position_ids", "integers", high=64),
            takes("txt_ids", "sequence_length 3", "position_ids"),
            takes("img_ids", "packed_height_width 3", "position_ids"),
            float_input("guidance", "batch_size", "timesteps", when="guidance_embeds"),
            sized_in("one several", packed_height_width=(1024, 24, 60)),
            denoises("out_hidden_states", "batch_size packed_height_width _"),
        ),
        "diffusers.gemma2-text-encoder": compose(
            text_model_inputs,
            takes("attention_mask", TOKENS, "padding_mask"),
            always(use_cache=False),
            checks(mask_input="attention_mask"),
            serves("feature-extraction", loads("Gemma2Model"), LAST_HIDDEN_STATE),
        ),
        "diffusers.sana-transformer": compose(
            float_input("hidden_states", LATENT_AXES),
            denoiser,
            takes("encoder_attention_mask", "batch_size sequence_length", "padding_mask"),
            generates("padding_mask", "mask", padding="right"),
            float_input("timestep", "batch_size", "timesteps"),
            reads(hidden_size="caption_channels", side="64"),
            denoises("out_hidden_states"),
        ),
        "diffusers.sd3-transformer-2d": compose(
            float_input("hidden_states", LATENT_AXES), denoiser, pooled_projection_inputs, denoises("out_hidden_states")
        ),
        "diffusers.t5-encoder": compose(
            text_model_inputs, serves("feature-extraction", loads("T5EncoderModel"), LAST_HIDDEN_STATE)
        ),
        "diffusers.unet-2d-condition": unet,
        "diffusers.vae-decoder": vae_decoder(latent_scale("down_block_types")),
        "diffusers.vae-encoder": vae_encoder(
            "sample_",
            latent_scale("down_block_types"),
            sized(sample_height=sample_size, sample_width=sample_size),
            output="latent_parameters",
            path=("latent_dist", "parameters"),
        ),
        "sentence_transformers.clip": clip_sentence_encoder,
        # sentence-transformers: `forward` takes and returns a dict of features.
        "sentence_transformers.transformer": compose(
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
        ),
        # timm. Models with positions for one image size have `fixed_input_size` in their configuration.
        "timm.default-timm-config": compose(
            takes("pixel_values", "batch_size num_channels= height width", "normal", kind="float", path=("x",)),
            reads(num_channels="input_size[0]"),
            sized_in(
                "one several",
                batch_size=(2, 1, 3),
                height=(from_config("input_size[1]"), 192, 288),
                width=(from_config("input_size[2]"), 256, 160),
            ),
            fixes("height", "input_size[1]", when="fixed_input_size"),
            fixes("width", "input_size[2]", when="fixed_input_size"),
            serves("image-classification", gives("logits", "batch_size _")),
        ),
    }
)

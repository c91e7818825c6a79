"""ORTModel of optimum-onnx 0.1.0: the types that it knows, the rule for the empty cache, and what it cannot load."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from onnxfn.export.clients.caches import (
    KEY,
    VALUE,
    CacheTensor,
    cache_of,
    decoder_of,
    other_inputs,
    sizes_of,
    templates,
)
from onnxfn.export.clients.configuration import SEPARATE_HEADS, config_value
from onnxfn.specs.algebra.planned import Plan

_TYPES = """
aimv2 aimv2_vision_model albert align altclip apertus arcee aria aria_text audio-spectrogram-transformer autoformer
aya_vision bamba bark bart beit bert bert-generation big_bird bigbird_pegasus biogpt bit bitnet blenderbot
blenderbot-small blip blip-2 blip_2_qformer bloom blt bridgetower bros camembert canine chameleon chinese_clip
chinese_clip_vision_model clap clip clip_text_model clip_vision_model clipseg clvp code_llama codegen cohere cohere2
cohere2_vision colpali colqwen2 conditional_detr convbert convnext convnextv2 cpmant csm ctrl cvt d_fine dab-detr
dac data2vec-audio data2vec-text data2vec-vision dbrx deberta deberta-v2 decision_transformer deepseek_v2
deepseek_v3 deepseek_vl deepseek_vl_hybrid deformable_detr deit depth_anything depth_pro deta detr dia diffllama
dinat dinov2 dinov2_with_registers dinov3_convnext dinov3_vit distilbert doge donut-swin dots1 dpr dpt edgetam
edgetam_video edgetam_vision_model efficientformer efficientloftr efficientnet electra emu3 encodec encoder-decoder
eomt ernie ernie4_5 ernie4_5_moe ernie_m esm evolla exaone4 falcon falcon_h1 falcon_mamba fastspeech2_conformer
fastspeech2_conformer_with_hifigan flaubert flava flex_olmo florence2 fnet focalnet fsmt funnel fuyu gemma gemma2
gemma3 gemma3_text gemma3n gemma3n_audio gemma3n_text gemma3n_vision git glm glm4 glm4_moe glm4v glm4v_moe
glm4v_moe_text glm4v_text glpn got_ocr2 gpt-sw3 gpt2 gpt_bigcode gpt_neo gpt_neox gpt_neox_japanese gpt_oss gptj
gptsan-japanese granite granite_speech granitemoe granitemoehybrid granitemoeshared granitevision graphormer
grounding-dino groupvit helium hgnet_v2 hiera hubert hunyuan_v1_dense hunyuan_v1_moe ibert idefics idefics2 idefics3
idefics3_vision ijepa imagegpt informer instructblip instructblipvideo internvl internvl_vision jamba janus jetmoe
jukebox kosmos-2 kosmos-2.5 kyutai_speech_to_text layoutlm layoutlmv2 layoutlmv3 led levit lfm2 lfm2_vl lightglue
lilt llama llama4 llama4_text llava llava_next llava_next_video llava_onevision longcat_flash longformer longt5 luke
lxmert m2m_100 mamba mamba2 marian markuplm mask2former maskformer maskformer-swin mbart mctct mega megatron-bert
metaclip_2 mgp-str mimi minimax ministral mistral mistral3 mixtral mlcd mllama mm-grounding-dino mobilebert
mobilenet_v1 mobilenet_v2 mobilevit mobilevitv2 modernbert modernbert-decoder moonshine moshi mpnet mpt mra mt5
musicgen musicgen_melody mvp nat nemotron nezha nllb-moe nougat nystromformer olmo olmo2 olmo3 olmoe omdet-turbo
oneformer open-llama openai-gpt opt ovis2 owlv2 owlvit paligemma parakeet_ctc parakeet_encoder patchtsmixer patchtst
pegasus pegasus_x perceiver perception_encoder perception_lm persimmon phi phi3 phi4_multimodal phimoe pix2struct
pixtral plbart poolformer pop2piano prompt_depth_anything prophetnet pvt pvt_v2 qdqbert qwen2 qwen2_5_omni
qwen2_5_vl qwen2_5_vl_text qwen2_audio qwen2_audio_encoder qwen2_moe qwen2_vl qwen2_vl_text qwen3 qwen3_moe
qwen3_next qwen3_omni_moe qwen3_vl qwen3_vl_moe qwen3_vl_moe_text qwen3_vl_text rag realm recurrent_gemma reformer
regnet rembert resnet retribert roberta roberta-prelayernorm roc_bert roformer rt_detr rt_detr_resnet rt_detr_v2
rwkv sam sam2 sam2_hiera_det_model sam2_video sam2_vision_model sam_hq sam_hq_vision_model sam_vision_model
seamless_m4t seamless_m4t_v2 seed_oss segformer seggpt sew sew-d shieldgemma2 siglip siglip2 siglip2_vision_model
siglip_vision_model smollm3 smolvlm smolvlm_vision speech-encoder-decoder speech_to_text speech_to_text_2 speecht5
splinter squeezebert stablelm starcoder2 superglue superpoint swiftformer swin swin2sr swinv2 switch_transformers t5
t5gemma table-transformer tapas textnet time_series_transformer timesfm timesformer timm_backbone timm_wrapper
trajectory_transformer transfo-xl trocr tvlt tvp udop umt5 unispeech unispeech-sat univnet upernet van vaultgemma
video_llava videomae vilt vipllava vision-encoder-decoder vision-text-dual-encoder visual_bert vit vit_hybrid
vit_mae vit_msn vitdet vitmatte vitpose vitpose_backbone vits vivit vjepa2 voxtral voxtral_encoder wav2vec2
wav2vec2-bert wav2vec2-conformer wavlm whisper xclip xcodec xglm xlm xlm-prophetnet xlm-roberta xlm-roberta-xl xlnet
xlstm xmod yolos yoso zamba zamba2 zoedepth
"""

KNOWN_TYPES = frozenset(_TYPES.split())
"""The types of transformers 4.57.6, the last version that optimum-onnx 0.1.0 allows."""


NAME = "ORTModel"

WITH_CACHE = ("text2text-generation-with-past", "automatic-speech-recognition-with-past")
"""The tasks of encoder-decoders that it runs with a cache."""

INPUTS = ("input_ids", "attention_mask", "position_ids")
"""What it computes for a decoder."""

OWN_WIDTH = frozenset({"gemma", "gemma3", "gemma3_text", "gpt_oss", "nemotron"})
"""Types whose width of a head is `head_dim`; that of all others is the hidden size divided by the number of heads."""

GROUPED_HEADS = OWN_WIDTH | frozenset(
    {
        *("arcee", "cohere", "deepseek_v3", "glm", "granite", "helium", "llama", "mistral", "qwen2", "qwen3"),
        *("qwen3_moe", "smollm3", "stablelm"),
    }
)
"""Types whose cache has `num_key_value_heads`; that of all others has `num_attention_heads`."""


WIDTHS: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"deepseek_v3": MappingProxyType({KEY: ("qk_nope_head_dim", "qk_rope_head_dim"), VALUE: ("v_head_dim",)})}
)
"""Types with latent attention: a key and a value of a head are each as wide as these values together."""

HeadSizes = tuple[Any, Any]
"""Heads, and the width of each."""

SINGLE_HEAD = frozenset({"falcon", "gpt_bigcode"})
"""Types whose cache has a single head where `config.json` states `multi_query`."""


def ort_model_limits(plan: Plan, config: Mapping[str, Any]) -> tuple[str, ...]:
    """Why ORTModel cannot load a plan; empty if nothing is known against it."""
    model_type, decoder = str(config.get("model_type") or ""), decoder_of(plan)
    if model_type and model_type not in KNOWN_TYPES:
        return (f"{NAME} does not know {model_type}: it needs transformers 4.57",)
    if decoder is None:
        return _unlike_heads(plan, model_type, config)
    if not model_type:
        return ()
    extra = other_inputs(decoder, INPUTS)
    if extra:
        return (f"{NAME} gives no {extra[0]}, which the graph takes",)
    cache = cache_of(decoder)
    other = [name for name in templates(cache) if name not in (KEY, VALUE)]
    if other:
        return (f"{NAME} has no cache but keys and values, and {model_type} has {other[0].replace('%d', '0')}",)
    return _size_limits(cache, model_type, config)


def _unlike_heads(plan: Plan, model_type: str, config: Mapping[str, Any]) -> tuple[str, ...]:
    """What is wrong with the empty cache of an encoder-decoder: ORTModel gives it the heads of the encoder."""
    encoder, decoder = (config.get(f"{half}_attention_heads") for half in ("encoder", "decoder"))
    if plan.task not in WITH_CACHE or encoder is None or decoder in (None, encoder):
        return ()
    return (f"{NAME} starts {model_type} with a cache of {encoder} heads, those of the encoder, not {decoder}",)


def _size_limits(cache: tuple[CacheTensor, ...], model_type: str, config: Mapping[str, Any]) -> tuple[str, ...]:
    """What is wrong with the empty cache that ORTModel starts from, and whether it is right for the root layout."""
    stated = {**config, **_cache_words(model_type, config)}
    wrong = _wrong_sizes(cache, _expected(model_type, stated))
    if wrong is None:
        return ()
    started, own = (f"{heads} x {width}" for heads, width in wrong)
    loads = _loading_flag(cache, model_type, config)
    return (f"{NAME} starts {model_type} with a cache of {started} for heads and width, not {own}{loads}",)


def _loading_flag(cache: tuple[CacheTensor, ...], model_type: str, config: Mapping[str, Any]) -> str:
    """The end of a remark: the flag with which ORTModel loads the folder; empty if there is none."""
    if model_type in WIDTHS and all(sizes[1] == 1 for sizes in sizes_of(cache, KEY)):
        return "; it loads the cache of --expanded-cache"
    return "" if _wrong_sizes(cache, _expected(model_type, config)) else "; it loads the folder of --layout optimum"


def _wrong_sizes(cache: tuple[CacheTensor, ...], expected: Mapping[str, HeadSizes]) -> tuple[HeadSizes, ...] | None:
    """The first heads and width of a cache that are not the expected ones: these, and its own; None if all are."""
    every = ((expected[name], (sizes[1], sizes[-1])) for name in expected for sizes in sizes_of(cache, name))
    return next(((right, own) for right, own in every if own != right), None)


def _cache_words(model_type: str, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """What `config.json` of the export says in place of a cache of keys and values in one tensor."""
    return SEPARATE_HEADS.get(model_type, {}) if config.get("multi_query") else {}


def _expected(model_type: str, config: Mapping[str, Any]) -> Mapping[str, HeadSizes]:
    """The heads of the empty cache and the width of each, for keys and for values."""
    attention_heads, hidden = config_value(config, "num_attention_heads"), config_value(config, "hidden_size")
    grouped = config_value(config, "num_kv_heads" if model_type == "falcon" else "num_key_value_heads")
    single = model_type in SINGLE_HEAD and config.get("multi_query") and not config.get("new_decoder_architecture")
    has_groups = grouped and (model_type in GROUPED_HEADS or model_type == "falcon")
    heads = 1 if single else grouped if has_groups else attention_heads
    own = config_value(config, "head_dim") if model_type in OWN_WIDTH else None
    width = own or (hidden // attention_heads if hidden and attention_heads else None)
    parts = WIDTHS.get(model_type, {})
    return {
        name: (heads, sum(config.get(part) or 0 for part in parts[name]) if name in parts else width)
        for name in (KEY, VALUE)
    }

"""The model types for which transformers.js 4.3.1 has a class, by task: data, read in its registry."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_TYPES = """
text-generation: bloom gpt2 gpt_oss jais gptj gpt_bigcode gpt_neo gpt_neox codegen llama nanochat apertus
  llama4_text arcee afmoe lfm2 lfm2_moe smollm3 exaone olmo olmo2 olmo3 olmo_hybrid mobilellm granite
  granitemoehybrid cohere cohere2 gemma gemma2 vaultgemma gemma3_text gemma3 helium glm glm_moe_dsa openelm qwen2
  qwen2_moe qwen3 qwen3_moe qwen3_next qwen2_vl qwen2_5_vl qwen3_vl qwen3_vl_moe qwen3_5 qwen3_5_text qwen3_5_moe
  gemma3n gemma4 phi phi3 mpt opt mbart mistral mistral4 ministral ministral3 ernie4_5 starcoder2 deepseek_v3
  deepseek_v4 falcon falcon_h1 nemotron_h trocr solar_open stablelm modernbert-decoder hunyuan_v1_dense youtu zaya
  hrm_text phi3_v
text2text-generation: t5 longt5 mt5 bart mbart marian m2m_100 blenderbot blenderbot-small
fill-mask: bert eurobert neobert modernbert roformer electra esm convbert camembert deberta deberta-v2 mpnet albert
  distilbert roberta xlm xlm-roberta mobilebert squeezebert
text-classification: bert eurobert neobert modernbert roformer electra esm convbert camembert deberta deberta-v2
  mpnet albert distilbert roberta xlm xlm-roberta bart mbart mobilebert squeezebert
token-classification: bert eurobert neobert modernbert roformer electra esm convbert camembert deberta deberta-v2
  mpnet distilbert roberta xlm xlm-roberta openai_privacy_filter
question-answering: bert neobert roformer electra convbert camembert deberta deberta-v2 mpnet albert distilbert
  roberta xlm xlm-roberta mobilebert squeezebert
automatic-speech-recognition: speecht5 whisper lite-whisper moonshine cohere_asr wav2vec2 wav2vec2-bert unispeech
  unispeech-sat wavlm hubert parakeet_ctc
image-to-text: vision-encoder-decoder idefics3 smolvlm llava llava_onevision moondream1 florence2 qwen2_vl
  qwen2_5_vl qwen3_vl qwen3_vl_moe qwen3_5 qwen3_5_moe lfm2_vl paligemma llava_qwen2 gemma3 gemma3n gemma4 mistral3
  lighton_ocr glm_ocr granite_speech ultravox voxtral voxtral_realtime
image-text-to-text: idefics3 smolvlm llava llava_onevision moondream1 florence2 qwen2_vl qwen2_5_vl qwen3_vl
  qwen3_vl_moe qwen3_5 qwen3_5_moe lfm2_vl paligemma llava_qwen2 gemma3 gemma3n gemma4 mistral3 lighton_ocr glm_ocr
audio-text-to-text: granite_speech ultravox voxtral voxtral_realtime gemma3n gemma4
any-to-any: gemma3n gemma4
document-question-answering: vision-encoder-decoder
audio-classification: wav2vec2 wav2vec2-bert unispeech unispeech-sat wavlm hubert audio-spectrogram-transformer
audio-xvector: wavlm
audio-frame-classification: unispeech-sat wavlm wav2vec2 pyannote
text-to-audio: speecht5 vits musicgen supertonic
image-classification: vit ijepa pvt vit_msn fastvit mobilevit mobilevitv2 beit deit hiera convnext convnextv2 dinov2
  dinov2_with_registers resnet swin segformer efficientnet mobilenet_v1 mobilenet_v2 mobilenet_v3 mobilenet_v4
object-detection: detr rt_detr rt_detr_v2 rf_detr d_fine table-transformer yolos
zero-shot-object-detection: owlvit owlv2 grounding-dino
image-segmentation: detr clipseg segformer sapiens swin mobilenet_v1 mobilenet_v2 mobilenet_v3 mobilenet_v4
  maskformer
semantic-segmentation: segformer sapiens swin mobilenet_v1 mobilenet_v2 mobilenet_v3 mobilenet_v4
depth-estimation: chmv2 dpt depth_anything glpn sapiens depth_pro metric3d metric3dv2
normal-estimation: sapiens
keypoint-detection: vitpose
image-to-image: swin2sr
image-matting: vitmatte
time-series-forecasting: patchtst patchtsmixer
"""


def _types_by_task(text: str) -> dict[str, frozenset[str]]:
    """The types of each task; a word with a colon is a task, the words after it are types."""
    rows = [row.partition(": ") for row in text.strip().replace("\n  ", " ").splitlines()]
    return {task: frozenset(types.split()) for task, _, types in rows}


TYPES_BY_TASK: Mapping[str, frozenset[str]] = MappingProxyType(_types_by_task(_TYPES))
"""A task -> the model types whose class transformers.js has. `AutoModel`, of feature-extraction, loads any type."""

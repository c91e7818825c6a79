"""The tiny models whose exports get seeded faults: random weights that matter, vocabularies larger than any text."""

from collections.abc import Mapping
from typing import Any

import tiny
from attrs import field, frozen

import onnxfn

DEVIATION = 0.15
"""The standard deviation of the weights."""

LONGEST_TEXT = 160
"""The positions of models that have a table of positions."""


@frozen
class Kind:
    """A model and how it is exported: `build` makes both. `sizes` are arguments of the configuration."""

    model_type: str
    loader: str
    task: str
    sizes: Mapping[str, Any] = field(factory=dict)
    float_dtype: str | None = None


TEXT: Mapping[str, Any] = {"vocab_size": 5000, "max_position_embeddings": LONGEST_TEXT, "num_hidden_layers": 2}
DECODED: Mapping[str, Any] = {**TEXT, "vocab_size": 1000}
GENERATION, REWRITING = "text-generation-with-past", "text2text-generation-with-past"
SPEECH, IMAGES = "automatic-speech-recognition-with-past", "zero-shot-image-classification"
BERT = Kind("bert", "AutoModel", "feature-extraction", TEXT)
LLAMA = Kind("llama", "AutoModelForCausalLM", GENERATION, DECODED)
GPT2 = Kind("gpt2", "AutoModelForCausalLM", GENERATION, DECODED)

BUCKETS = {"relative_attention_num_buckets": 32, "relative_attention_max_distance": 128}
TOKENS = {"eos_token_id": 3, "bos_token_id": 4, "pad_token_id": 3}
TOWER = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
HEARD = {"vocab_size": 200, "max_target_positions": LONGEST_TEXT}
CLIP = {
    "text_config": {**TEXT, **TOWER, **TOKENS},
    "vision_config": {**TOWER, "image_size": 24, "patch_size": 8},
    "projection_dim": 16,
}

MODELS: Mapping[str, Kind] = {
    "bert": BERT,
    "bert_classifier": Kind("bert", "AutoModelForSequenceClassification", "text-classification", TEXT),
    "roberta": Kind("roberta", "AutoModel", "feature-extraction", TEXT),
    "llama": LLAMA,
    "mistral": Kind("mistral", "AutoModelForCausalLM", GENERATION, {**DECODED, "sliding_window": 8}),
    "mistral_window_48": Kind("mistral", "AutoModelForCausalLM", GENERATION, {**DECODED, "sliding_window": 48}),
    "gpt2": GPT2,
    "gpt2_classifier": Kind("gpt2", "AutoModelForSequenceClassification", "text-classification", TEXT),
    "t5": Kind("t5", "AutoModelForSeq2SeqLM", REWRITING, {**BUCKETS, "vocab_size": 200, "num_layers": 2}),
    "bart": Kind("bart", "AutoModelForSeq2SeqLM", REWRITING, DECODED),
    "whisper": Kind("whisper", "AutoModelForSpeechSeq2Seq", SPEECH, HEARD),
    "vit": Kind("vit", "AutoModelForImageClassification", "image-classification", {"image_size": 24}),
    "clip": Kind("clip", "AutoModel", IMAGES, CLIP),
    "mamba": Kind("mamba", "AutoModelForCausalLM", GENERATION, {"vocab_size": 1000, "num_hidden_layers": 2}),
    "bert_float16": Kind("bert", "AutoModel", "feature-extraction", TEXT, "float16"),
    "llama_float16": Kind("llama", "AutoModelForCausalLM", GENERATION, DECODED, "float16"),
    "gpt2_float16": Kind("gpt2", "AutoModelForCausalLM", GENERATION, DECODED, "float16"),
}


def build(name: str) -> tuple[Any, onnxfn.ExportSpec]:
    import torch

    kind = MODELS[name]
    model = tiny.model(kind.model_type, kind.loader, **kind.sizes)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if parameter.dim() > 1 and not parameter_name.endswith("A_log"):
                parameter.normal_(0, DEVIATION, generator=generator)
    spec = onnxfn.spec_for(kind.model_type, kind.task)
    return model, onnxfn.with_dtypes(spec, float=kind.float_dtype) if kind.float_dtype else spec

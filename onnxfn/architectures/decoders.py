"""Decoders of text. Rows that Optimum also has take its inputs and tasks (tests/contract)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from onnxfn.architectures.common_patches import batched_experts, function_patch, linear_attention_cache
from onnxfn.architectures.families import generation_positions, text_decoder
from onnxfn.architectures.families.recurrent import (
    conv_state,
    conv_states_in_parts,
    full_attention_cache,
    full_attention_layers,
    gated_delta_net_layers,
    kimi_delta_layers,
    linear_attention_layers,
    mamba2_layers,
    mamba_layers,
    module_of,
)
from onnxfn.architectures.families.text import decoder_without_cache
from onnxfn.specs.compose import compose
from onnxfn.specs.edits.caches import kv_cache, state_row
from onnxfn.specs.edits.tensors import only_tasks, without
from onnxfn.specs.facts import TOKENS, builds, patched, takes
from onnxfn.specs.getters import (
    complement,
    either,
    every_nth,
    first_with,
    indices_where,
    less_than,
    reads,
)
from onnxfn.specs.records import Getter, Source
from onnxfn.specs.spec import ExportSpec, Target
from onnxfn.specs.tasks import tasked

FEATURES = ("feature-extraction", "feature-extraction-with-past")
GENERATION = ("text-generation", "text-generation-with-past")
WITHOUT_PAST = ("feature-extraction", "text-generation")
"""The tasks of models without a cache: OpenAI's GPT has none, and Recurrent Gemma has its state in its modules."""

TEXT_CLASSIFICATION = "text-classification"
TOKEN_CLASSIFICATION = "token-classification"  # noqa: S105 - a task, not a password
QUESTION_ANSWERING = "question-answering"

llama: ExportSpec = compose(text_decoder, generation_positions)
mixtral: ExportSpec = compose(llama, batched_experts)

# Sinks, ALiBi, layers that share a cache, a mask of the values, ...: no GroupQueryAttention computes this.
own_attention: ExportSpec = ExportSpec(target=Target(shared_cache=False))

# ALiBi needs no `position_ids`: its bias depends on the mask, and the model computes it.
bloom: ExportSpec = compose(text_decoder, own_attention)

gpt_bigcode: ExportSpec = compose(llama, reads(num_key_value_heads="1 if multi_query else num_attention_heads"))

# With ALiBi there are no `position_ids`. The new architecture caches keys and values per attention head; the old one
# per KV head, of which multi-query attention has 1 (modeling_falcon.FalconAttention.forward).
falcon: ExportSpec = compose(
    text_decoder,
    *(
        tasked(task, spec=takes("position_ids", TOKENS, "token_positions", when="not alibi"))
        for task in (*FEATURES, *GENERATION)
    ),
    reads(
        num_key_value_heads=(
            "num_attention_heads if new_decoder_architecture else "
            "1 if multi_query else num_kv_heads or num_attention_heads"
        )
    ),
    function_patch(module_of("falcon"), "build_alibi_tensor"),
)

# The decoder of a model of texts and images.
gemma3: ExportSpec = compose(
    llama,
    reads(
        vocab_size="text_config.vocab_size",
        num_layers="text_config.num_hidden_layers",
        num_key_value_heads="text_config.num_key_value_heads",
        head_dim="text_config.head_dim",
    ),
)

# The last layers use keys and values of earlier layers, and have no cache (modeling_gemma3n, modeling_gemma4).
CACHED_LAYERS = "num_layers - num_kv_shared_layers"
gemma3n: ExportSpec = compose(
    llama,
    kv_cache(layers=CACHED_LAYERS),
    function_patch(module_of("gemma3n"), "Gemma3nTextMLP._gaussian_topk"),
)
gemma4: ExportSpec = compose(
    mixtral,
    kv_cache(layers=less_than(indices_where("layer_types", "sliding_attention"), CACHED_LAYERS)),
    kv_cache(
        heads="full_heads",
        key="full_size",
        value="full_size",
        layers=less_than(full_attention_layers, CACHED_LAYERS),
        kind="full",
    ),
    reads(
        full_heads=either(first_with("per_layer_config", "num_key_value_heads"), "num_key_value_heads"),
        full_size=either(first_with("per_layer_config", "head_dim"), "head_dim"),
    ),
)

# Layers with a sliding window have twice the KV heads. Values have another size than keys (modeling_mimo_v2_flash).
mimo_v2_flash: ExportSpec = compose(
    mixtral,
    reads(sliding_heads="2 * num_key_value_heads"),
    kv_cache(value="v_head_dim", layers=full_attention_layers),
    kv_cache(
        heads="sliding_heads",
        value="v_head_dim",
        layers=indices_where("layer_types", "sliding_attention"),
        kind="sliding",
    ),
)


def latent_attention(layers: Source = "num_layers") -> ExportSpec:
    """A spec of the cache of multi-head latent attention (MLA).

    The compressed keys and values are cached as the key, and the rotated part of the keys, which all heads share, as
    the value (modeling_deepseek_v3.DeepseekV3Attention.forward).
    """
    return compose(
        reads(num_latents="1"),
        kv_cache(heads="num_latents", key="kv_lora_rank", value="qk_rope_head_dim", layers=layers),
    )


def complex_rotary(name: str, prefix: str, by: str) -> ExportSpec:
    """A spec of rotary embeddings that the model computes with complex numbers.

    Args:
        name: The model's module in transformers: `llama4`.
        prefix: How the name of the class of rotary embeddings begins: `Llama4Text`.
        by: The function of patches/rotary_pairs.py that replaces `apply_rotary_emb`.
    """
    why = "uses complex numbers, which ONNX does not have"
    return compose(
        patched(f"{module_of(name)}:{prefix}RotaryEmbedding.forward", by="rotary_pairs.cos_sin", why=why),
        patched(f"{module_of(name)}:apply_rotary_emb", by=f"rotary_pairs.{by}", why=why),
    )


deepseek_v3: ExportSpec = compose(mixtral, latent_attention())
deepseek_v2: ExportSpec = compose(deepseek_v3, complex_rotary("deepseek_v2", "DeepseekV2", "rotated_heads_first"))
llama4: ExportSpec = compose(mixtral, complex_rotary("llama4", "Llama4Text", "rotated_length_first"))

# Layers with full attention among layers with a short convolution (modeling_lfm2.Lfm2ShortConv).
lfm2: ExportSpec = compose(
    mixtral,
    linear_attention_cache,
    full_attention_cache,
    conv_state("batch_size hidden_size= conv_L_cache=", layers=indices_where("layer_types", "conv")),
)
lfm3: ExportSpec = compose(lfm2, kv_cache(layers=indices_where("layer_types", "full_attention", "sliding_attention")))

# Layers with a state space only. There is no KV cache, and `forward` calls the cache `cache_params`.
mamba: ExportSpec = compose(decoder_without_cache, mamba_layers("mamba:MambaMixer", argument="cache_params"))
falcon_mamba: ExportSpec = compose(
    decoder_without_cache, mamba_layers("falcon_mamba:FalconMambaMixer", argument="cache_params")
)
mamba2: ExportSpec = compose(decoder_without_cache, mamba2_layers("mamba2", argument="cache_params"))

# Each layer has attention and a state space.
falcon_h1: ExportSpec = compose(llama, mamba2_layers("falcon_h1"))

# Layers with attention among layers with a state space.
bamba: ExportSpec = compose(
    mixtral,
    kv_cache(layers="attn_layer_indices"),
    mamba2_layers("bamba", layers=complement("num_layers", "attn_layer_indices")),
)
granitemoehybrid: ExportSpec = compose(
    mixtral, full_attention_cache, mamba2_layers("granitemoehybrid", layers=linear_attention_layers)
)
nemotron_h: ExportSpec = compose(
    mixtral, full_attention_cache, mamba2_layers("nemotron_h", layers=linear_attention_layers)
)
jamba_attention_layers: Getter = every_nth("num_layers", "attn_layer_period", "attn_layer_offset")
jamba: ExportSpec = compose(
    mixtral,
    kv_cache(layers=jamba_attention_layers),
    mamba_layers("jamba:JambaMambaMixer", layers=complement("num_layers", jamba_attention_layers)),
)

# Every layer has a state space, and a hybrid layer also has attention.
hybrid_cache: ExportSpec = kv_cache(layers=indices_where("layer_types", "hybrid"))
zamba: ExportSpec = compose(
    llama,
    hybrid_cache,
    mamba_layers("zamba:ZambaMambaMixer", by="multihead_mixer", state="batch_size n_mamba_heads= ssm_size= ssm_width="),
    reads(ssm_size="ssm_entries // n_mamba_heads"),
)
zamba2: ExportSpec = compose(mixtral, hybrid_cache, mamba2_layers("zamba2"))

minimax: ExportSpec = compose(
    mixtral,
    patched(
        f"{module_of('minimax')}:MiniMaxLightningAttention.forward",
        by="recurrent.lightning_attention",
        why="loops over blocks of the text",
    ),
    reads(value_size="head_dim"),
    full_attention_cache,
    state_row(
        "linear",
        "batch_size num_attention_heads= head_dim= value_size=",
        attribute="",
        container=("linear_cache", "{layer}"),
        layers=linear_attention_layers,
    ),
    builds("past_key_values", "minimax_cache"),
)

recurrent_gemma: ExportSpec = compose(
    llama,
    patched(
        f"{module_of('recurrent_gemma')}:RecurrentGemmaRglru._rnn_scan",
        by="recurrent.rglru_scan",
        why="loops over the text",
    ),
)


def qwen3_next(name: str) -> ExportSpec:
    """Full attention and gated delta nets, for the module `name` of transformers."""
    return compose(mixtral, gated_delta_net_layers(name))


olmo_hybrid: ExportSpec = compose(mixtral, gated_delta_net_layers("olmo_hybrid", conv_states_in_parts))

# Without `position_ids` the model counts from the length of the cache, the same for text, height and width.
# transformers.js would compute positions of rank 3, other clients those of rank 2. Rotary embeddings are relative, so
# padding on the left changes nothing.
qwen3_5: ExportSpec = without(qwen3_next("qwen3_5"), "position_ids")


def kimi_linear(name: str) -> ExportSpec:
    """Latent attention and Kimi Delta Attention, for the module `name` of transformers."""
    return compose(mixtral, latent_attention(full_attention_layers), kimi_delta_layers(name))


def _row(spec: ExportSpec, *heads: str) -> ExportSpec:
    """The spec for features, for generation, and for the tasks of these heads."""
    return only_tasks(spec, *FEATURES, *GENERATION, *heads)


ROWS: Mapping[str, ExportSpec] = MappingProxyType(
    {
        "afmoe": _row(mixtral),
        "apertus": _row(llama, TOKEN_CLASSIFICATION),
        "arcee": _row(llama),
        "aria_text": _row(mixtral),
        "axk1": _row(deepseek_v3, TEXT_CLASSIFICATION, TOKEN_CLASSIFICATION),
        "bailing_hybrid": _row(kimi_linear("bailing_hybrid")),
        "bamba": _row(bamba),
        "beam": _row(mixtral),
        "biogpt": _row(llama, TEXT_CLASSIFICATION, TOKEN_CLASSIFICATION),
        "bitnet": _row(llama),
        "bloom": _row(bloom, TEXT_CLASSIFICATION, TOKEN_CLASSIFICATION),
        "codegen": _row(compose(llama, own_attention)),
        "cohere": _row(llama),
        "cohere2": _row(llama),
        "cohere2_moe": _row(mixtral),
        "ctrl": _row(llama, TEXT_CLASSIFICATION),
        "cwm": _row(llama),
        "deepseek_v2": _row(deepseek_v2, TEXT_CLASSIFICATION),
        "deepseek_v3": _row(deepseek_v3),
        "diffllama": _row(compose(llama, own_attention), TEXT_CLASSIFICATION, TOKEN_CLASSIFICATION, QUESTION_ANSWERING),
        "doge": _row(compose(llama, own_attention), TEXT_CLASSIFICATION),
        "dots1": _row(mixtral),
        "ernie4_5": _row(llama),
        "ernie4_5_moe": _row(mixtral),
        "exaone4": _row(llama, TEXT_CLASSIFICATION, TOKEN_CLASSIFICATION, QUESTION_ANSWERING),
        "exaone_moe": _row(mixtral),
        "falcon": _row(falcon, QUESTION_ANSWERING, TOKEN_CLASSIFICATION),
        "falcon_h1": _row(falcon_h1),
        "falcon_mamba": _row(falcon_mamba),
        "flex_olmo": _row(mixtral),
        "flint": _row(compose(mixtral, own_attention)),
        "gemma": _row(llama, TEXT_CLASSIFICATION),
        "gemma2": _row(llama, TEXT_CLASSIFICATION),
        "gemma3": _row(gemma3, TEXT_CLASSIFICATION),
        "gemma3_text": _row(llama),
        "gemma3n_text": _row(compose(gemma3n, own_attention)),
        "gemma4_text": _row(compose(gemma4, own_attention)),
        "gemma4_unified_text": _row(gemma4),
        "glm": _row(llama),
        "glm4": _row(llama, TEXT_CLASSIFICATION, TOKEN_CLASSIFICATION),
        "glm4_moe": _row(mixtral),
        "glm4_moe_lite": _row(deepseek_v3),
        "gpt-sw3": _row(llama, TEXT_CLASSIFICATION, TOKEN_CLASSIFICATION),
        "gpt2": _row(llama, TEXT_CLASSIFICATION, TOKEN_CLASSIFICATION),
        "gpt_bigcode": _row(gpt_bigcode, TEXT_CLASSIFICATION, TOKEN_CLASSIFICATION),
        "gpt_neo": _row(compose(llama, own_attention), TEXT_CLASSIFICATION),
        "gpt_neox": _row(llama, TEXT_CLASSIFICATION),
        "gpt_neox_japanese": _row(compose(llama, own_attention)),
        "gpt_oss": _row(compose(mixtral, own_attention)),
        "gptj": _row(llama, TEXT_CLASSIFICATION, QUESTION_ANSWERING),
        "granite": _row(llama),
        "granite_swa": _row(compose(llama, own_attention)),
        "granitemoe": _row(mixtral),
        "granitemoe_swa": _row(compose(mixtral, own_attention)),
        "granitemoehybrid": _row(granitemoehybrid),
        "granitemoeshared": _row(mixtral),
        "helium": _row(llama),
        "hrm_text": _row(mixtral),
        "hunyuan_v1_dense": _row(llama, TEXT_CLASSIFICATION),
        "hunyuan_v1_moe": _row(mixtral, TEXT_CLASSIFICATION),
        "hy_v3": _row(mixtral),
        "hyperclovax": _row(llama),
        "internlm2": only_tasks(llama, *GENERATION),
        "internlm3": _row(llama),
        "iquestcoder": _row(llama),
        "jais2": _row(llama),
        "jamba": _row(jamba, TEXT_CLASSIFICATION),
        "kimi_linear": _row(kimi_linear("kimi_linear")),
        "kolibri1": _row(mixtral),
        "laguna": _row(mixtral),
        "lfm2": _row(lfm2),
        "lfm2_moe": _row(lfm2),
        "lfm3": _row(lfm3),
        "llama": _row(llama, TEXT_CLASSIFICATION),
        "llama4_text": _row(llama4),
        "mamba": _row(mamba),
        "mamba2": _row(mamba2),
        "mellum": _row(mixtral),
        "mimo_v2_flash": _row(mimo_v2_flash),
        "minicpm3": _row(deepseek_v3, TEXT_CLASSIFICATION),
        "minimax": _row(minimax, TEXT_CLASSIFICATION, TOKEN_CLASSIFICATION, QUESTION_ANSWERING),
        "minimax_m2": _row(mixtral),
        "minimax_m3_vl_text": _row(mixtral),
        "ministral": _row(llama, TEXT_CLASSIFICATION, TOKEN_CLASSIFICATION, QUESTION_ANSWERING),
        "ministral3": _row(llama, TEXT_CLASSIFICATION, TOKEN_CLASSIFICATION, QUESTION_ANSWERING),
        "mistral": _row(llama, TEXT_CLASSIFICATION),
        "mixtral": _row(mixtral, TEXT_CLASSIFICATION, TOKEN_CLASSIFICATION, QUESTION_ANSWERING),
        "modernbert-decoder": _row(llama, TEXT_CLASSIFICATION),
        "mpt": _row(bloom, TEXT_CLASSIFICATION, TOKEN_CLASSIFICATION),
        "nanochat": _row(llama),
        "nemotron": _row(llama),
        "nemotron_h": _row(nemotron_h),
        "olmo": _row(llama),
        "olmo2": _row(llama),
        "olmo3": _row(llama, TEXT_CLASSIFICATION),
        "olmo_hybrid": _row(olmo_hybrid),
        "olmoe": _row(mixtral),
        "openai-gpt": only_tasks(llama, *WITHOUT_PAST, TEXT_CLASSIFICATION),
        "opt": _row(llama, TEXT_CLASSIFICATION, QUESTION_ANSWERING),
        "persimmon": _row(llama, TEXT_CLASSIFICATION, TOKEN_CLASSIFICATION),
        "phi": _row(llama, TEXT_CLASSIFICATION),
        "phi3": _row(llama, TEXT_CLASSIFICATION),
        "phimoe": _row(mixtral, TEXT_CLASSIFICATION),
        "qwen2": _row(llama, TEXT_CLASSIFICATION, TOKEN_CLASSIFICATION),
        "qwen2_moe": _row(mixtral, TEXT_CLASSIFICATION, TOKEN_CLASSIFICATION, QUESTION_ANSWERING),
        "qwen3": _row(llama, TEXT_CLASSIFICATION),
        "qwen3_5_moe_text": _row(qwen3_next("qwen3_5_moe")),
        "qwen3_5_text": _row(qwen3_5, TEXT_CLASSIFICATION),
        "qwen3_moe": _row(mixtral, TEXT_CLASSIFICATION, TOKEN_CLASSIFICATION),
        "qwen3_next": _row(qwen3_next("qwen3_next"), TEXT_CLASSIFICATION, TOKEN_CLASSIFICATION, QUESTION_ANSWERING),
        "recurrent_gemma": only_tasks(recurrent_gemma, *WITHOUT_PAST),
        "seed_oss": _row(llama, TEXT_CLASSIFICATION, TOKEN_CLASSIFICATION, QUESTION_ANSWERING),
        "smollm3": _row(llama, TEXT_CLASSIFICATION),
        "solar_open": _row(mixtral),
        "stablelm": _row(llama),
        "starcoder2": _row(llama, TEXT_CLASSIFICATION, TOKEN_CLASSIFICATION),
        "vaultgemma": _row(llama),
        "xglm": _row(compose(llama, own_attention)),
        "youtu": _row(deepseek_v3),
        "zamba": _row(zamba, TEXT_CLASSIFICATION),
        "zamba2": _row(zamba2, TEXT_CLASSIFICATION),
    }
)

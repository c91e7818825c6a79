"""Decoders of text: rows. Where Optimum has one, inputs and tasks are those of its table (tests/contract)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from attrs import evolve

from onnxfn.architectures.common_patches import batched_experts, function_patch, linear_attention_cache
from onnxfn.architectures.families import positions, text_decoder
from onnxfn.specs.compose import compose
from onnxfn.specs.edits.caches import kv_cache, state_row
from onnxfn.specs.edits.tensors import only_tasks
from onnxfn.specs.facts import TOKENS, builds, patched, takes
from onnxfn.specs.getters import (
    complement,
    constant,
    difference,
    either,
    every_nth,
    first_with,
    if_else,
    indices_where,
    less_than,
    negated,
    product,
    quotient,
    reads,
    total,
)
from onnxfn.specs.records import Edit, Source
from onnxfn.specs.spec import Cache, ExportSpec
from onnxfn.specs.tasks import tasked

FEATURES = ("feature-extraction", "feature-extraction-with-past")
GENERATION = (*FEATURES, "text-generation", "text-generation-with-past")
SEQUENCES = "text-classification"
TAGS = "token-classification"
ANSWERS = "question-answering"

llama = compose(text_decoder, positions)

# Their positions are counted by the model: slopes over the mask (ALiBi) need no more.
bloom = text_decoder

mixtral = compose(llama, batched_experts)

# What keys and values are made of is kept as a key, and the rotated part that all heads share as a value
# (modeling_deepseek_v3.DeepseekV3Attention.forward).
latent = compose(
    reads(num_latents=constant(1)), kv_cache(heads="num_latents", key="kv_lora_rank", value="qk_rope_head_dim")
)
deepseek_v3 = compose(mixtral, latent)

# Slopes need no positions, rotations do. In the newer architecture keys and values are kept once for each query
# (modeling_falcon.FalconAttention.forward), else as they are made, for one head or for all.
falcon = compose(
    text_decoder,
    *(
        tasked(task, spec=takes("position_ids", TOKENS, "token_positions", when=negated("alibi")))
        for task in GENERATION
    ),
    reads(
        num_key_value_heads=if_else(
            "new_decoder_architecture",
            "num_attention_heads",
            if_else("multi_query", constant(1), either("num_kv_heads", "num_attention_heads")),
        )
    ),
    function_patch("transformers.models.falcon.modeling_falcon", "build_alibi_tensor"),
)

gpt_bigcode = compose(llama, reads(num_key_value_heads=if_else("multi_query", constant(1), "num_attention_heads")))

# A model of texts and images; its texts alone.
gemma3 = compose(
    llama,
    reads(
        vocab_size="text_config.vocab_size",
        num_layers="text_config.num_hidden_layers",
        num_key_value_heads="text_config.num_key_value_heads",
        head_dim="text_config.head_dim",
    ),
)


# Layers that keep keys and values among layers that keep the end of what they convolve (modeling_lfm2.Lfm2ShortConv).
lfm2 = compose(
    mixtral,
    linear_attention_cache,
    kv_cache(layers=indices_where("layer_types", "full_attention")),
    state_row(
        "conv",
        "batch_size hidden_size= conv_L_cache=",
        attribute="conv_states.0",
        layers=indices_where("layer_types", "conv"),
    ),
)


def delta_net(name: str) -> ExportSpec:
    """Layers with keys and values among layers of a gated delta rule; `name` is that of the model's module."""
    linear = indices_where("layer_types", "linear_attention")
    return compose(
        mixtral,
        linear_attention_cache,
        function_patch(f"transformers.models.{name}.modeling_{name}", "torch_chunk_gated_delta_rule"),
        reads(
            conv_width=total(
                product(constant(2), "linear_num_key_heads", "linear_key_head_dim"),
                product("linear_num_value_heads", "linear_value_head_dim"),
            )
        ),
        kv_cache(layers=indices_where("layer_types", "full_attention")),
        state_row("conv", "batch_size conv_width= linear_conv_kernel_dim=", attribute="conv_states.0", layers=linear),
        state_row(
            "recurrent",
            "batch_size linear_num_value_heads= linear_key_head_dim= linear_value_head_dim=",
            attribute="recurrent_states.0",
            layers=linear,
        ),
    )


linear_attention = indices_where("layer_types", "linear_attention")


def state_space(name: str, layers: Source = "num_layers", argument: str = "past_key_values") -> ExportSpec:
    """Layers of a state space, as Mamba 2 has them; `name` is that of the model's module."""
    return compose(
        linear_attention_cache,
        patched(
            f"transformers.models.{name}.modeling_{name}:mamba2_chunk_scan",
            by="recurrent.mamba2_scan",
            why="fills up the text to whole chunks",
        ),
        reads(
            ssm_heads=either("mamba_n_heads", "n_mamba_heads", "mamba_num_heads", "num_heads"),
            ssm_size=either("mamba_d_head", "mamba_headdim", "mamba_head_dim", "head_dim"),
            ssm_groups=either("mamba_n_groups", "mamba_ngroups", "n_groups"),
            ssm_width=either("mamba_d_state", "ssm_state_size", "state_size"),
            conv_size=either("mamba_d_conv", "conv_kernel"),
            conv_width=total(product("ssm_heads", "ssm_size"), product(constant(2), "ssm_groups", "ssm_width")),
        ),
        state_row(
            "conv", "batch_size conv_width= conv_size=", attribute="conv_states.0", layers=layers, argument=argument
        ),
        state_row(
            "ssm",
            "batch_size ssm_heads= ssm_size= ssm_width=",
            attribute="recurrent_states.0",
            layers=layers,
            argument=argument,
        ),
    )


stateless = evolve(text_decoder, cache=Cache(), call=evolve(text_decoder.call, builders=()))
mamba2 = compose(stateless, state_space("mamba2", argument="cache_params"))
falcon_h1 = compose(llama, state_space("falcon_h1"))
granitemoehybrid = compose(
    mixtral,
    kv_cache(layers=indices_where("layer_types", "full_attention")),
    state_space("granitemoehybrid", linear_attention),
)
bamba = compose(
    mixtral,
    kv_cache(layers="attn_layer_indices"),
    state_space("bamba", complement("num_layers", "attn_layer_indices")),
)


def selective(mixer: str, by: str = "mixer", **placed: Any) -> ExportSpec:
    """Layers of a selective scan, as the first Mamba has them; `mixer` is `name:Class` of the model's own.

    PyTorch goes on from their states by single tokens alone, so by more than one at a time is checked in tests.
    """
    name, _, title = mixer.partition(":")
    return compose(
        linear_attention_cache,
        patched(
            f"transformers.models.{name}.modeling_{name}:{title}.forward",
            by=f"mamba.{by}",
            why="loops over the text, and forgets the state before a text of several tokens",
        ),
        reads(
            ssm_entries=either(product("mamba_expand", "hidden_size"), "intermediate_size"),
            ssm_width=either("mamba_d_state", "state_size"),
            conv_size=either("mamba_d_conv", "conv_kernel"),
        ),
        state_row("conv", "batch_size ssm_entries= conv_size=", attribute="conv_states.0", **placed),
        tasked("text-generation-with-past", Edit("with_single_steps")),
    )


def scanned(axes: str, **placed: Any) -> ExportSpec:
    """The state of a selective scan."""
    return state_row("ssm", axes, attribute="recurrent_states.0", **placed)


mamba_axes = "batch_size ssm_entries= ssm_width="
alone: Mapping[str, Any] = MappingProxyType({"layers": "num_layers", "argument": "cache_params"})
attending = every_nth("num_layers", "attn_layer_period", "attn_layer_offset")
beside: Mapping[str, Any] = MappingProxyType({"layers": complement("num_layers", attending)})
mamba = compose(stateless, selective("mamba:MambaMixer", **alone), scanned(mamba_axes, **alone))
falcon_mamba = compose(stateless, selective("falcon_mamba:FalconMambaMixer", **alone), scanned(mamba_axes, **alone))
jamba = compose(
    mixtral, kv_cache(layers=attending), selective("jamba:JambaMambaMixer", **beside), scanned(mamba_axes, **beside)
)

# In a hybrid layer there are both, one after the other.
hybrid = kv_cache(layers=indices_where("layer_types", "hybrid"))
zamba = compose(
    llama,
    hybrid,
    selective("zamba:ZambaMambaMixer", by="multihead_mixer"),
    reads(ssm_size=quotient("ssm_entries", "n_mamba_heads")),
    scanned("batch_size n_mamba_heads= ssm_size= ssm_width="),
)
zamba2 = compose(mixtral, hybrid, state_space("zamba2"))
attentive = kv_cache(layers=indices_where("layer_types", "full_attention"))
nemotron_h = compose(mixtral, attentive, state_space("nemotron_h", linear_attention))


def channelwise(name: str) -> ExportSpec:
    """Layers of a delta rule, its decay of each channel, among layers that keep what keys and values are made of."""
    return compose(
        mixtral,
        latent,
        linear_attention_cache,
        function_patch(f"transformers.models.{name}.modeling_{name}", "chunk_kimi_delta_attention"),
        reads(
            linear_heads=either("linear_num_heads", "num_attention_heads"),
            linear_size=either("linear_head_dim", "head_dim"),
            conv_size=either("linear_conv_kernel_dim", "short_conv_kernel_size"),
            conv_width=product(constant(3), "linear_heads", "linear_size"),
            value_size="linear_size",
        ),
        kv_cache(
            heads="num_latents",
            key="kv_lora_rank",
            value="qk_rope_head_dim",
            layers=indices_where("layer_types", "full_attention"),
        ),
        state_row("conv", "batch_size conv_width= conv_size=", attribute="conv_states.0", layers=linear_attention),
        state_row(
            "recurrent",
            "batch_size linear_heads= linear_size= value_size=",
            attribute="recurrent_states.0",
            layers=linear_attention,
        ),
    )


minimax = compose(
    mixtral,
    patched(
        "transformers.models.minimax.modeling_minimax:MiniMaxLightningAttention.forward",
        by="recurrent.lightning_attention",
        why="loops over blocks of the text",
    ),
    reads(value_size="head_dim"),
    kv_cache(layers=indices_where("layer_types", "full_attention")),
    state_row(
        "linear",
        "batch_size num_attention_heads= head_dim= value_size=",
        attribute="",
        container=("linear_cache", "{layer}"),
        layers=linear_attention,
    ),
    builds("past_key_values", "minimax_cache"),
)

recurrent_gemma = compose(
    llama,
    patched(
        "transformers.models.recurrent_gemma.modeling_recurrent_gemma:RecurrentGemmaRglru._rnn_scan",
        by="recurrent.rglru_scan",
        why="loops over the text",
    ),
)

lfm3 = compose(lfm2, kv_cache(layers=indices_where("layer_types", "full_attention", "sliding_attention")))

# Layers with a window have twice the heads, and values have a size of their own (modeling_mimo_v2_flash).
mimo_v2_flash = compose(
    mixtral,
    reads(more_heads=product(constant(2), "num_key_value_heads")),
    kv_cache(value="v_head_dim", layers=indices_where("layer_types", "full_attention")),
    kv_cache(
        heads="more_heads", value="v_head_dim", layers=indices_where("layer_types", "sliding_attention"), kind="sliding"
    ),
)


# The last layers look at what earlier ones keep, and keep nothing (modeling_gemma3n, modeling_gemma4).
KEEPING = difference("num_layers", "num_kv_shared_layers")
gemma3n = compose(
    llama,
    kv_cache(layers=KEEPING),
    patched(
        "transformers.models.gemma3n.modeling_gemma3n:Gemma3nTextMLP._gaussian_topk",
        by="gemma3n.gaussian_topk",
        why="the inverse of the error function",
    ),
)
gemma4 = compose(
    mixtral,
    kv_cache(layers=less_than(indices_where("layer_types", "sliding_attention"), KEEPING)),
    kv_cache(
        heads="full_heads",
        key="full_size",
        value="full_size",
        layers=less_than(indices_where("layer_types", "full_attention"), KEEPING),
        kind="full",
    ),
    reads(
        full_heads=either(first_with("per_layer_config", "num_key_value_heads"), "num_key_value_heads"),
        full_size=either(first_with("per_layer_config", "head_dim"), "head_dim"),
    ),
)


def turned(name: str, title: str, by: str) -> ExportSpec:
    """A rotation of pairs that the model writes with complex numbers; `name` is that of the model's module."""
    module, why = f"transformers.models.{name}.modeling_{name}", "complex numbers"
    return compose(
        patched(f"{module}:{title}RotaryEmbedding.forward", by="rotary_pairs.cos_sin", why=why),
        patched(f"{module}:apply_rotary_emb", by=f"rotary_pairs.{by}", why=why),
    )


deepseek_v2 = compose(deepseek_v3, turned("deepseek_v2", "DeepseekV2", "rotated_heads_first"))
llama4 = compose(mixtral, turned("llama4", "Llama4Text", "rotated_length_first"))


def _row(spec: ExportSpec, *heads: str) -> ExportSpec:
    return only_tasks(spec, *GENERATION, *heads)


def _without_past(spec: ExportSpec, *heads: str) -> ExportSpec:
    """OpenAI's GPT keeps nothing; Recurrent Gemma keeps its states in its modules, beside `forward`."""
    return only_tasks(spec, "feature-extraction", "text-generation", *heads)


ROWS: Mapping[str, ExportSpec] = MappingProxyType(
    {
        "afmoe": _row(mixtral),
        "bailing_hybrid": _row(channelwise("bailing_hybrid")),
        "beam": _row(mixtral),
        "flint": _row(mixtral),
        "gemma4_unified_text": _row(gemma4),
        "hrm_text": _row(mixtral),
        "kolibri1": _row(mixtral),
        "lfm3": _row(lfm3),
        "minimax": _row(minimax, SEQUENCES, TAGS, ANSWERS),
        "minimax_m3_vl_text": _row(mixtral),
        "recurrent_gemma": _without_past(recurrent_gemma),
        "apertus": _row(llama, TAGS),
        "arcee": _row(llama),
        "aria_text": _row(mixtral),
        "axk1": _row(deepseek_v3, SEQUENCES, TAGS),
        "bamba": _row(bamba),
        "biogpt": _row(llama, SEQUENCES, TAGS),
        "bitnet": _row(llama),
        "bloom": _row(bloom, SEQUENCES, TAGS),
        "codegen": _row(llama),
        "cohere": _row(llama),
        "cohere2": _row(llama),
        "cohere2_moe": _row(mixtral),
        "ctrl": _row(llama, SEQUENCES),
        "cwm": _row(llama),
        "deepseek_v2": _row(deepseek_v2, SEQUENCES),
        "deepseek_v3": _row(deepseek_v3),
        "diffllama": _row(llama, SEQUENCES, TAGS, ANSWERS),
        "doge": _row(llama, SEQUENCES),
        "dots1": _row(mixtral),
        "ernie4_5": _row(llama),
        "ernie4_5_moe": _row(mixtral),
        "exaone4": _row(llama, SEQUENCES, TAGS, ANSWERS),
        "exaone_moe": _row(mixtral),
        "falcon": _row(falcon, ANSWERS, TAGS),
        "falcon_h1": _row(falcon_h1),
        "falcon_mamba": _row(falcon_mamba),
        "flex_olmo": _row(mixtral),
        "gemma": _row(llama, SEQUENCES),
        "gemma2": _row(llama, SEQUENCES),
        "gemma3": _row(gemma3, SEQUENCES),
        "gemma3_text": _row(llama),
        "gemma3n_text": _row(gemma3n),
        "gemma4_text": _row(gemma4),
        "glm": _row(llama),
        "glm4": _row(llama, SEQUENCES, TAGS),
        "glm4_moe": _row(mixtral),
        "glm4_moe_lite": _row(deepseek_v3),
        "gpt-sw3": _row(llama, SEQUENCES, TAGS),
        "gpt2": _row(llama, SEQUENCES, TAGS),
        "gpt_bigcode": _row(gpt_bigcode, SEQUENCES, TAGS),
        "gpt_neo": _row(llama, SEQUENCES),
        "gpt_neox": _row(llama, SEQUENCES),
        "gpt_neox_japanese": _row(llama),
        "gpt_oss": _row(mixtral),
        "gptj": _row(llama, SEQUENCES, ANSWERS),
        "granite": _row(llama),
        "granite_swa": _row(llama),
        "granitemoe": _row(mixtral),
        "granitemoe_swa": _row(mixtral),
        "granitemoehybrid": _row(granitemoehybrid),
        "granitemoeshared": _row(mixtral),
        "helium": _row(llama),
        "hunyuan_v1_dense": _row(llama, SEQUENCES),
        "hunyuan_v1_moe": _row(mixtral, SEQUENCES),
        "hy_v3": _row(mixtral),
        "hyperclovax": _row(llama),
        "internlm2": only_tasks(llama, *GENERATION[2:]),
        "internlm3": _row(llama),
        "iquestcoder": _row(llama),
        "jais2": _row(llama),
        "jamba": _row(jamba, SEQUENCES),
        "kimi_linear": _row(channelwise("kimi_linear")),
        "laguna": _row(mixtral),
        "lfm2": _row(lfm2),
        "lfm2_moe": _row(lfm2),
        "llama": _row(llama, SEQUENCES),
        "llama4_text": _row(llama4),
        "mamba": _row(mamba),
        "mamba2": _row(mamba2),
        "mellum": _row(mixtral),
        "mimo_v2_flash": _row(mimo_v2_flash),
        "minicpm3": _row(deepseek_v3, SEQUENCES),
        "minimax_m2": _row(mixtral),
        "ministral": _row(llama, SEQUENCES, TAGS, ANSWERS),
        "ministral3": _row(llama, SEQUENCES, TAGS, ANSWERS),
        "mistral": _row(llama, SEQUENCES),
        "mixtral": _row(mixtral, SEQUENCES, TAGS, ANSWERS),
        "modernbert-decoder": _row(llama, SEQUENCES),
        "mpt": _row(bloom, SEQUENCES, TAGS),
        "nanochat": _row(llama),
        "nemotron": _row(llama),
        "nemotron_h": _row(nemotron_h),
        "olmo": _row(llama),
        "olmo2": _row(llama),
        "olmo3": _row(llama, SEQUENCES),
        "olmo_hybrid": _row(delta_net("olmo_hybrid")),
        "olmoe": _row(mixtral),
        "openai-gpt": _without_past(llama, SEQUENCES),
        "opt": _row(llama, SEQUENCES, ANSWERS),
        "persimmon": _row(llama, SEQUENCES, TAGS),
        "phi": _row(llama, SEQUENCES),
        "phi3": _row(llama, SEQUENCES),
        "phimoe": _row(mixtral, SEQUENCES),
        "qwen2": _row(llama, SEQUENCES, TAGS),
        "qwen2_moe": _row(mixtral, SEQUENCES, TAGS, ANSWERS),
        "qwen3": _row(llama, SEQUENCES),
        "qwen3_5_moe_text": _row(delta_net("qwen3_5_moe")),
        "qwen3_5_text": _row(delta_net("qwen3_5"), SEQUENCES),
        "qwen3_moe": _row(mixtral, SEQUENCES, TAGS),
        "qwen3_next": _row(delta_net("qwen3_next"), SEQUENCES, TAGS, ANSWERS),
        "seed_oss": _row(llama, SEQUENCES, TAGS, ANSWERS),
        "smollm3": _row(llama, SEQUENCES),
        "solar_open": _row(mixtral),
        "stablelm": _row(llama),
        "starcoder2": _row(llama, SEQUENCES, TAGS),
        "vaultgemma": _row(llama),
        "xglm": _row(llama),
        "youtu": _row(deepseek_v3),
        "zamba": _row(zamba, SEQUENCES),
        "zamba2": _row(zamba2, SEQUENCES),
    }
)

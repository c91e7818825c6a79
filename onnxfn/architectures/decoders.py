"""Decoders of text. Rows that Optimum also has take its inputs and tasks (tests/contract)."""

from collections.abc import Mapping

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
)
from onnxfn.architectures.families.rows import rows
from onnxfn.architectures.families.text import (
    FEATURES,
    GENERATION,
    decoder_without_cache,
    generation_positions,
    text_decoder,
)
from onnxfn.specs.algebra.compose import compose, reads
from onnxfn.specs.algebra.facts import TOKENS, builds, takes
from onnxfn.specs.algebra.spec import ExportSpec, Target
from onnxfn.specs.edits.caches import cache_row, kv_cache
from onnxfn.specs.edits.tensors import only_tasks, without
from onnxfn.specs.records import Source
from onnxfn.specs.tasks.tasks import tasked

WITHOUT_PAST = ("feature-extraction", "text-generation")
"""The tasks of models without a cache: OpenAI's GPT has none, and Recurrent Gemma has its state in its modules."""

TEXT_CLASSIFICATION = "text-classification"
TOKEN_CLASSIFICATION = "token-classification"  # noqa: S105 - a task, not a password
QUESTION_ANSWERING = "question-answering"
CLASSIFICATION = (TEXT_CLASSIFICATION, TOKEN_CLASSIFICATION)
ALL_HEADS = (*CLASSIFICATION, QUESTION_ANSWERING)

llama: ExportSpec = compose(text_decoder, generation_positions)

# Sinks, ALiBi, layers that share a cache, a mask of the values, ...: no GroupQueryAttention computes this.
own_attention: ExportSpec = ExportSpec(target=Target(shared_cache=False))

gpt_bigcode: ExportSpec = compose(llama, reads(num_key_value_heads="1 if multi_query else num_attention_heads"))

# With ALiBi there are no `position_ids`. The new architecture caches keys and values per attention head; the old one
# per KV head, of which multi-query attention has 1 (modeling_falcon.FalconAttention.forward).
falcon: ExportSpec = compose(
    text_decoder,
    *(
        tasked(task, takes("position_ids", TOKENS, "token_positions", when="not alibi"))
        for task in (*FEATURES, *GENERATION)
    ),
    reads(
        num_key_value_heads=(
            "num_attention_heads if new_decoder_architecture else "
            "1 if multi_query else num_kv_heads or num_attention_heads"
        )
    ),
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
SLIDING_LAYERS = "indices_where(layer_types, 'sliding_attention')"
gemma4: ExportSpec = compose(
    llama,
    kv_cache(layers=f"less_than({SLIDING_LAYERS}, {CACHED_LAYERS})"),
    kv_cache(
        heads="full_heads",
        key="full_size",
        value="full_size",
        layers=f"less_than({full_attention_layers}, {CACHED_LAYERS})",
        kind="full",
    ),
    reads(
        full_heads="first_with(per_layer_config, 'num_key_value_heads') or num_key_value_heads",
        full_size="first_with(per_layer_config, 'head_dim') or head_dim",
    ),
)

# Layers with a sliding window have twice the KV heads. Values have another size than keys (modeling_mimo_v2_flash).
mimo_v2_flash: ExportSpec = compose(
    llama,
    reads(sliding_heads="2 * num_key_value_heads"),
    kv_cache(value="v_head_dim", layers=full_attention_layers),
    kv_cache(heads="sliding_heads", value="v_head_dim", layers=SLIDING_LAYERS, kind="sliding"),
)


def latent_attention(layers: Source = "num_layers") -> ExportSpec:
    """A spec of the cache of latent attention (MLA): compressed keys as the key, shared rotated keys as the value."""
    return compose(
        reads(num_latents="1"),
        kv_cache(heads="num_latents", key="kv_lora_rank", value="qk_rope_head_dim", layers=layers),
    )


deepseek_v3: ExportSpec = compose(llama, latent_attention())

# Layers with full attention among layers with a short convolution (modeling_lfm2.Lfm2ShortConv).
lfm2: ExportSpec = compose(
    llama,
    full_attention_cache,
    conv_state("batch_size hidden_size= conv_L_cache=", layers="indices_where(layer_types, 'conv')"),
)
lfm3: ExportSpec = compose(lfm2, kv_cache(layers="indices_where(layer_types, 'full_attention', 'sliding_attention')"))

# Layers with attention among layers with a state space.
bamba: ExportSpec = compose(
    llama, kv_cache(layers="attn_layer_indices"), mamba2_layers(layers="complement(num_layers, attn_layer_indices)")
)
granitemoehybrid: ExportSpec = compose(llama, full_attention_cache, mamba2_layers(layers=linear_attention_layers))
jamba_attention_layers = "every_nth(num_layers, attn_layer_period, attn_layer_offset)"
jamba: ExportSpec = compose(
    llama,
    kv_cache(layers=jamba_attention_layers),
    mamba_layers(layers=f"complement(num_layers, {jamba_attention_layers})"),
)

# Every layer has a state space, and a hybrid layer also has attention.
hybrid_cache: ExportSpec = kv_cache(layers="indices_where(layer_types, 'hybrid')")
zamba: ExportSpec = compose(
    llama,
    hybrid_cache,
    mamba_layers(state="batch_size n_mamba_heads= ssm_size= ssm_width="),
    reads(ssm_size="ssm_entries // n_mamba_heads"),
)

minimax: ExportSpec = compose(
    llama,
    reads(value_size="head_dim"),
    full_attention_cache,
    cache_row(
        "linear",
        "batch_size num_attention_heads= head_dim= value_size=",
        attribute="",
        container=("linear_cache", "{layer}"),
        layers=linear_attention_layers,
    ),
    builds("past_key_values", "minimax_cache"),
)

qwen3_next: ExportSpec = compose(llama, gated_delta_net_layers())


def _with_heads(spec: ExportSpec, *heads: str) -> ExportSpec:
    """The spec for features, for generation, and for the tasks of these heads."""
    return only_tasks(spec, *FEATURES, *GENERATION, *heads)


ROWS: Mapping[str, ExportSpec] = rows(
    {
        (
            "afmoe arcee aria_text beam bitnet cohere cohere2 cohere2_moe cwm dots1 ernie4_5 ernie4_5_moe "
            "exaone_moe flex_olmo gemma3_text glm glm4_moe granite granitemoe granitemoeshared helium hrm_text "
            "hy_v3 hyperclovax internlm3 iquestcoder jais2 kolibri1 laguna llama4_text mellum minimax_m2 "
            "minimax_m3_vl_text nanochat nemotron olmo olmo2 olmoe solar_open stablelm vaultgemma"
        ): _with_heads(llama),
        (
            "ctrl gemma gemma2 gpt_neox hunyuan_v1_dense hunyuan_v1_moe llama mistral modernbert-decoder olmo3 "
            "phi phi3 phimoe qwen3 smollm3"
        ): _with_heads(llama, TEXT_CLASSIFICATION),
        "gptj opt": _with_heads(llama, TEXT_CLASSIFICATION, QUESTION_ANSWERING),
        "biogpt glm4 gpt-sw3 gpt2 persimmon qwen2 qwen3_moe starcoder2": _with_heads(llama, *CLASSIFICATION),
        "exaone4 ministral ministral3 mixtral qwen2_moe seed_oss": _with_heads(llama, *ALL_HEADS),
        "apertus": _with_heads(llama, TOKEN_CLASSIFICATION),
        "bamba": _with_heads(bamba),
        # ALiBi needs no `position_ids`: its bias depends on the mask, and the model computes it.
        "bloom mpt": _with_heads(compose(text_decoder, own_attention), *CLASSIFICATION),
        "deepseek_v3 glm4_moe_lite youtu": _with_heads(deepseek_v3),
        "deepseek_v2 minicpm3": _with_heads(deepseek_v3, TEXT_CLASSIFICATION),
        "axk1": _with_heads(deepseek_v3, *CLASSIFICATION),
        "falcon": _with_heads(falcon, QUESTION_ANSWERING, TOKEN_CLASSIFICATION),
        "falcon_h1": _with_heads(compose(llama, mamba2_layers())),  # each layer has attention and a state space
        "gemma3": _with_heads(gemma3, TEXT_CLASSIFICATION),
        "gemma4_unified_text": _with_heads(gemma4),
        "gpt_bigcode": _with_heads(gpt_bigcode, *CLASSIFICATION),
        "granitemoehybrid nemotron_h": _with_heads(granitemoehybrid),
        "jamba": _with_heads(jamba, TEXT_CLASSIFICATION),
        # Latent attention and Kimi Delta Attention.
        "bailing_hybrid kimi_linear": _with_heads(
            compose(llama, latent_attention(full_attention_layers), kimi_delta_layers)
        ),
        "lfm2 lfm2_moe": _with_heads(lfm2),
        "lfm3": _with_heads(lfm3),
        # Layers with a state space only. There is no KV cache, and `forward` calls the cache `cache_params`.
        "falcon_mamba mamba": _with_heads(compose(decoder_without_cache, mamba_layers(argument="cache_params"))),
        "mamba2": _with_heads(compose(decoder_without_cache, mamba2_layers(argument="cache_params"))),
        "mimo_v2_flash": _with_heads(mimo_v2_flash),
        "minimax": _with_heads(minimax, *ALL_HEADS),
        "olmo_hybrid": _with_heads(compose(llama, gated_delta_net_layers(conv_states_in_parts))),
        # Without `position_ids` the model counts from the length of the cache, the same for text, height and width.
        # transformers.js would compute positions of rank 3, other clients those of rank 2. Rotary embeddings are
        # relative, so padding on the left changes nothing.
        "qwen3_5_text": _with_heads(without(qwen3_next, "position_ids"), TEXT_CLASSIFICATION),
        "qwen3_5_moe_text": _with_heads(qwen3_next),
        "qwen3_next": _with_heads(qwen3_next, *ALL_HEADS),
        "zamba": _with_heads(zamba, TEXT_CLASSIFICATION),
        "zamba2": _with_heads(compose(llama, hybrid_cache, mamba2_layers()), TEXT_CLASSIFICATION),
        "gemma3n_text": _with_heads(compose(llama, kv_cache(layers=CACHED_LAYERS), own_attention)),
        "gemma4_text": _with_heads(compose(gemma4, own_attention)),
        "codegen flint gpt_neox_japanese gpt_oss granite_swa granitemoe_swa xglm": _with_heads(
            compose(llama, own_attention)
        ),
        "doge gpt_neo": _with_heads(compose(llama, own_attention), TEXT_CLASSIFICATION),
        "diffllama": _with_heads(compose(llama, own_attention), *ALL_HEADS),
        "internlm2": only_tasks(llama, *GENERATION),
        "openai-gpt": only_tasks(llama, *WITHOUT_PAST, TEXT_CLASSIFICATION),
        "recurrent_gemma": only_tasks(llama, *WITHOUT_PAST),
    }
)

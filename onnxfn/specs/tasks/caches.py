"""Edits of the cache of a decoder: past and present in one buffer, and keys and values in place of latents."""

from __future__ import annotations

from onnxfn.specs.algebra.compose import compose, reads
from onnxfn.specs.algebra.dummies import sized
from onnxfn.specs.algebra.facts import case, runs
from onnxfn.specs.algebra.spec import ExportSpec, Target
from onnxfn.specs.edits.as_edit import as_edit
from onnxfn.specs.edits.caches import kv_cache
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.tasks.tasks import for_some_task

OPSET = 23
"""The first opset with Attention and RotaryEmbedding, which the graph is made of."""


@as_edit
def with_shared_cache(spec: ExportSpec) -> ExportSpec:
    """The spec of a decoder with past and present in one buffer, which may be longer than the text.

    The graph has com.microsoft's GroupQueryAttention, so that only ONNX Runtime runs it. A program may give the same
    memory as past and as present; then no step copies the cache. With caches that grow the graph does the same.
    With the layout `hub`, `genai_config.json` says `past_present_share_buffer: true`. The opset is 23 or later.

    The operator takes a past and several new tokens for one text alone. For several texts it takes a prompt without a
    past, padded on either side, and then one token a step.

    Args:
        spec: A spec of a decoder for text-generation-with-past.

    Raises:
        InvalidSpec: the spec has no cache of keys and values as inputs and outputs of one graph, or the operator cannot
            compute its attention.

    >>> from onnxfn import spec_for
    >>> with_shared_cache(spec_for("llama", "text-generation-with-past")).target.opset
    23
    """
    chosen = for_some_task(spec)
    if chosen.cache.past != "both" or chosen.parts.files:
        raise InvalidSpec(
            f"{spec.name or 'this spec'} is not a decoder with a past for {chosen.task}, so it has no cache to share; "
            "use the task text-generation-with-past"
        )
    if chosen.target.shared_cache is False:
        raise InvalidSpec(
            f"GroupQueryAttention does not compute the attention of {spec.name or 'this spec'}, so its cache cannot "
            "lie in a shared buffer"
        )
    target = Target(shared_cache=True, opset=max(OPSET, chosen.target.opset or OPSET))
    prompts = (case(name, sized(past_sequence_length=0)) for name in ("right-padded", "left-padded"))
    return compose(chosen, *prompts, ExportSpec(target=target))


LATENT = "num_latents"
"""The number of heads of a cache of latents, as rows name it."""


@as_edit
def with_expanded_cache(spec: ExportSpec) -> ExportSpec:
    """The spec with keys and values of all heads in the cache, in place of latents.

    transformers 5 caches the latent of DeepSeek-V3 and the rotated part that all heads share. In transformers 4,
    Optimum and ORTModel, each head has a key of `qk_nope_head_dim + qk_rope_head_dim` and a value of `v_head_dim`. That
    cache is larger: 71 times for DeepSeek-V3. No step computes it again.

    Args:
        spec: A spec of a decoder with latent attention.

    Raises:
        InvalidSpec: the spec has no cache of latents, or runs a part of its model.

    Source: "DeepSeek-V2: A Strong, Economical, and Efficient Mixture-of-Experts Language Model", arXiv 2405.04434.

    >>> from onnxfn import spec_for
    >>> spec = with_expanded_cache(spec_for("deepseek_v3", "text-generation-with-past"))
    >>> str(spec.cache.rows[1].input_axes)
    '[batch_size, num_attention_heads, past_sequence_length, v_head_dim]'
    """
    chosen = for_some_task(spec)
    layers = [row.layers for row in chosen.cache.rows if any(axis.symbol == LATENT for axis in row.input_axes.axes)]
    if not layers or chosen.call.submodule is not None:
        raise InvalidSpec(
            f"{spec.name or 'this spec'} has no cache of latents that could be expanded; DeepSeek-V3, Youtu, MiniCPM3 "
            "and other models with latent attention have one"
        )
    return compose(
        chosen,
        runs("latent_attention.with_expanded_cache"),
        reads(expanded_key_size="qk_nope_head_dim + qk_rope_head_dim"),
        kv_cache(heads="num_attention_heads", key="expanded_key_size", value="v_head_dim", layers=layers[0]),
    )

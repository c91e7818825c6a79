"""Edits of the cache of a decoder: in shared buffers, in buffers of one length, keys and values in place of latents."""

from __future__ import annotations

from onnxfn.specs.algebra.compose import compose, reads
from onnxfn.specs.algebra.dummies import sized
from onnxfn.specs.algebra.facts import case, runs
from onnxfn.specs.algebra.spec import ExportSpec, Target, inner_specs
from onnxfn.specs.edits.as_edit import as_edit
from onnxfn.specs.edits.caches import SCATTER_OPSET, SHARED_OPSET, kv_cache
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.tasks.tasks import WITH_PAST, for_some_task

NOT_BOTH = "a cache is static or has shared buffers, not both: leave one of the two out"


@as_edit
def with_shared_cache(spec: ExportSpec) -> ExportSpec:
    """The spec of a decoder with past and present in one buffer, which may be longer than the text.

    The graph has com.microsoft's GroupQueryAttention, with a body for other programs than ONNX Runtime. A program may
    give the same memory as past and as present; then no step copies the cache. With caches that grow the graph does the
    same. With the layout `hub`, `genai_config.json` says `past_present_share_buffer: true`. A lower opset becomes 23.

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
            "tasks such as text-generation-with-past have one"
        )
    if chosen.target.static_cache:
        raise InvalidSpec(NOT_BOTH)
    if chosen.target.shared_cache is False:
        raise InvalidSpec(
            f"GroupQueryAttention does not compute the attention of {spec.name or 'this spec'}, so its cache cannot "
            "lie in a shared buffer"
        )
    target = Target(shared_cache=True, opset=max(SHARED_OPSET, chosen.target.opset or 0))
    prompts = (case(name, sized(past_sequence_length=0)) for name in ("right-padded", "left-padded"))
    return compose(chosen, *prompts, ExportSpec(target=target))


@as_edit
def with_static_cache(spec: ExportSpec, length: int = 2048) -> ExportSpec:
    """The spec of a decoder whose keys and values lie in buffers of one length, in standard operators.

    Past and present have the shape `[batch_size, heads, length, head_dim]`, so that a program may give the same memory
    as both. TensorScatter writes the new keys and values at `write_indices`, an input of one number: how many tokens,
    with their padding, the buffers have. Attention reads as many as `nonpad_kv_seqlen` says. `attention_mask` is
    `[batch_size, length]`, 0 behind the new tokens. One graph reads prompts, parts of prompts, and tokens. With
    `with_shapes(spec, batch_size=1, sequence_length=1)` no axis is left dynamic. A layer with a sliding window has a
    buffer of the whole length, and its mask hides what is before the window: a ring would lose keys that the first
    tokens of a prompt read. In an encoder-decoder the cross-attention is computed once and has the encoder's length;
    that of two decoders (`decoders="separate"`) is static if `encoder_sequence_length` is fixed.

    Args:
        spec: A spec of a decoder, or of an encoder-decoder, for a task with past.
        length: The most tokens of a text, prompt and padding included; `export` refuses more than a table of positions.

    Raises:
        InvalidSpec: the spec has no cache that grows, shares its buffers, or the length is below 24.

    Source: TensorScatter and Attention of ONNX, opset 24.

    >>> from onnxfn import spec_for
    >>> with_static_cache(spec_for("llama", "text-generation-with-past"), 64).target.static_cache
    64
    """
    chosen = for_some_task(spec)
    grows = any(row.grows for inner in inner_specs(chosen) for row in inner.cache.rows)
    if chosen.target.shared_cache:
        raise InvalidSpec(NOT_BOTH)
    if not isinstance(length, int) or length < 24:  # noqa: PLR2004 - the cases of the check have as many tokens
        raise InvalidSpec(f"the length of a static cache is {length!r}; write a number of tokens, 24 or more")
    if not grows or not (chosen.task or "").endswith(WITH_PAST):
        raise InvalidSpec(
            f"{spec.name or 'this spec'} has no static cache: no keys and values grow for {chosen.task}; decoders have "
            "them, for text-generation-with-past"
        )
    opset = max(SCATTER_OPSET, chosen.target.opset or 0)
    return compose(chosen, ExportSpec(target=Target(static_cache=length, opset=opset)))


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
    '[batch_size, num_attention_heads=, past_sequence_length, v_head_dim=]'
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

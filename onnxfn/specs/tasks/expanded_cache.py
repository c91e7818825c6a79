"""`with_expanded_cache`: the keys and values of all heads as the cache of multi-head latent attention (MLA)."""

from __future__ import annotations

from onnxfn.specs.algebra.compose import compose, reads
from onnxfn.specs.algebra.facts import runs
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.edits.as_edit import as_edit
from onnxfn.specs.edits.caches import kv_cache
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.tasks.tasks import for_some_task

LATENT = "num_latents"
"""The number of heads of a cache of latents, as rows name it."""


@as_edit
def with_expanded_cache(spec: ExportSpec) -> ExportSpec:
    """The spec whose cache holds the keys and values of all heads, in place of latents.

    transformers 5 caches the latent of DeepSeek-V3 and the rotated part that all heads share; transformers 4, Optimum
    and ORTModel have a key of `qk_nope_head_dim + qk_rope_head_dim` and a value of `v_head_dim` for each head. That
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

"""The edit that lets the past and the present of a decoder lie in one buffer."""

from __future__ import annotations

from onnxfn.specs.algebra.compose import compose
from onnxfn.specs.algebra.dummies import sized
from onnxfn.specs.algebra.facts import case
from onnxfn.specs.algebra.spec import ExportSpec, Target
from onnxfn.specs.edits.as_edit import as_edit
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.tasks.tasks import for_some_task

OPSET = 23
"""The first opset with Attention and RotaryEmbedding, which the graph is made of."""

_EMPTY_PAST = sized(past_sequence_length=0)


@as_edit
def with_shared_cache(spec: ExportSpec) -> ExportSpec:
    """The spec of a decoder whose past and present may lie in one buffer that is longer than the text.

    The graph has com.microsoft's GroupQueryAttention, so that only ONNX Runtime runs it. A program may give the same
    memory as past and as present; then no step copies the cache. With caches that grow the graph does the same.
    With the layout `hub`, `genai_config.json` says `past_present_share_buffer: true`. The opset is 23 or later.

    The operator takes a past and several new tokens for one text alone. For several texts it takes a prompt without a
    past, padded on either side, and then one token a step.

    Args:
        spec: A spec of a decoder for text-generation-with-past.

    Raises:
        InvalidSpec: the spec has no cache of keys and values as inputs and outputs of one graph, or its attention is
            another one than the operator computes.

    >>> from onnxfn import spec_for
    >>> with_shared_cache(spec_for("llama", "text-generation-with-past")).target.opset
    23
    """
    chosen = for_some_task(spec)
    if chosen.cache.past != "both" or chosen.parts.files:
        raise InvalidSpec(
            f"{spec.name or 'this spec'} is no decoder with a past for {chosen.task}, so it has no cache to share; "
            "use the task text-generation-with-past"
        )
    if chosen.target.shared_cache is False:
        raise InvalidSpec(
            f"GroupQueryAttention does not compute the attention of {spec.name or 'this spec'}, so its cache cannot "
            "lie in a shared buffer"
        )
    target = Target(shared_cache=True, opset=max(OPSET, chosen.target.opset or OPSET))
    prompts = (case(name, _EMPTY_PAST) for name in ("right-padded", "left-padded"))
    return compose(chosen, *prompts, ExportSpec(target=target))

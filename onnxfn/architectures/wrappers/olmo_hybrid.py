"""OLMo Hybrid with the state of its convolution in three parts (modeling_olmo_hybrid, transformers 5.23)."""

from __future__ import annotations

from functools import wraps
from typing import Any

from onnxfn.architectures.private.renamed import field
from onnxfn.architectures.wrappers.modules import module

PARTS = ("query", "key", "value")
"""The parts of a state, in the order of its channels."""


def with_conv_states_in_parts(model: Any) -> Any:
    """The model; the cache that it returns also has the parts of each state, as `conv_states["query"]` and so on."""
    config = model.config
    keys = config.linear_num_key_heads * config.linear_key_head_dim
    sizes = (keys, keys, config.linear_num_value_heads * config.linear_value_head_dim)

    @wraps(model.forward)
    def forward(*arguments: Any, **named: Any) -> Any:
        outputs = model(*arguments, **named)
        for layer in getattr(field(outputs, "past_key_values"), "layers", ()):
            states = getattr(layer, "conv_states", {})
            if states.get(0) is not None:
                states.update(zip(PARTS, states[0].split(sizes, dim=1), strict=True))
        return outputs

    return module(forward)

"""Models with a causal mask for attention layers that are not causal themselves."""

from __future__ import annotations

import inspect
import re
import sys
from typing import Any

from onnxfn.specs.algebra.spec import Call, ExportSpec

CAUSAL = re.compile(r"is_causal(: bool)? ?= ?True|[\"']is_causal[\"']|self\.is_causal = is_causal")
"""Source text by which a module of transformers makes some attention causal, regardless of its configuration."""


def masked_by_eager(model: Any) -> ExportSpec:
    """The attention `eager` for a model that relies on a causal mask while its layers have `is_causal=False`.

    With sdpa, transformers leaves a causal mask out when no text has padding, and relies on the attention. So such a
    model is causal only if a text of the batch has padding, and no graph can be that. With eager it is always causal.

    >>> from transformers import AutoConfig, AutoModel
    >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 8}
    >>> config = AutoConfig.for_model("aimv2", text_config=sizes, vision_config=sizes)
    >>> masked_by_eager(AutoModel.from_config(config)).call.attention
    'eager'
    """
    is_causal: dict[str, set[bool]] = {}
    for module in model.modules():
        if isinstance(getattr(module, "is_causal", None), bool):
            is_causal.setdefault(type(module).__module__, set()).add(module.is_causal)
    modules = [sys.modules[name] for name, values in is_causal.items() if values == {False}]
    is_masked = any(hasattr(module, "create_causal_mask") and not CAUSAL.search(_source(module)) for module in modules)
    return ExportSpec(call=Call(attention="eager")) if is_masked else ExportSpec()


def _source(module: Any) -> str:
    """The source of a module; the empty string without one, as in a frozen application."""
    try:
        return inspect.getsource(module)
    except OSError:
        return ""

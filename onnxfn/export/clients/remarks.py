"""What the clients of a layout cannot load of a plan, known before anything is traced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from attrs import evolve

from onnxfn.export.clients.alias import alias_of, alias_remarks
from onnxfn.export.clients.genai import genai_limits
from onnxfn.export.clients.genai_images import image_limits
from onnxfn.export.clients.ort_model import ort_model_limits
from onnxfn.export.clients.transformers_js import transformers_js_limits
from onnxfn.specs.algebra.config_values import snapshot
from onnxfn.specs.algebra.planned import Plan
from onnxfn.weights.layouts import ALIAS_FILE, Layout

Limits = Callable[[Plan, Mapping[str, Any]], tuple[str, ...]]
"""From a plan and a configuration to why a client cannot load the plan."""

LIMITS: Mapping[str, Limits] = MappingProxyType(
    {
        "transformers.js": transformers_js_limits,
        "onnxruntime-genai": lambda plan, config: (*genai_limits(plan), *image_limits(plan, config)),
        "ORTModel": ort_model_limits,
    }
)
"""A client -> what is known of it. sentence-transformers loads what ORTModel loads."""


def with_remarks(plan: Plan, config: Any, layout: Layout) -> Plan:
    """The plan with what the clients of a layout cannot load of it; unchanged for a layout without any."""
    if not layout.clients and not layout.side_files:
        return plan
    values = snapshot(config)
    change = alias_of(plan, values) if ALIAS_FILE in layout.side_files else {}
    first, values = alias_remarks(change, values) if change else (), {**values, **change}
    limits = (limit for client in layout.clients if client in LIMITS for limit in LIMITS[client](plan, values))
    return evolve(plan, remarks=(*first, *limits, *_token_types(plan, values)))


def _token_types(plan: Plan, config: Mapping[str, Any]) -> tuple[str, ...]:
    """A line for a model that tells two kinds of tokens apart, if no graph takes the kinds."""
    number = config.get("type_vocab_size")
    taken = {tensor.name for part in plan.parts for tensor in part.spec.inputs}
    if isinstance(number, int) and number > 1 and "input_ids" in taken and "token_type_ids" not in taken:
        return (f"the configuration has type_vocab_size {number}, and no graph takes token_type_ids",)
    return ()

"""The pass that leaves out first states of recurrent operators that are zero."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from onnxfn.graphs.nodes.constants import constant_array
from onnxfn.graphs.nodes.nodes import is_operator, producer

FIRST_STATES: Mapping[str, tuple[int, ...]] = MappingProxyType({"GRU": (5,), "LSTM": (5, 6), "RNN": (5,)})
"""A recurrent operator -> the positions of the inputs that are its states before the first step."""

SAME_ELEMENTS = ("Expand", "Slice", "Transpose", "Reshape", "Squeeze", "Unsqueeze")
"""Operators that output no other elements than those of their first input."""


def drop_zero_states(model: Any) -> Any:
    """Removes inputs of recurrent operators that are zero.

    Before: a simplified graph. torch gives zeros to an LSTM that a model calls without states.
    After: no GRU, LSTM or RNN reads a state that is zero for each size of the batch. ONNX takes zeros where a state is
    left out.
    """
    for node in model.graph:
        if is_operator(node, *FIRST_STATES):
            for position in FIRST_STATES[node.op_type]:
                if position < len(node.inputs) and _is_zero(node.inputs[position]):
                    node.replace_input_with(position, None)
    return model


def _is_zero(value: Any) -> bool:
    """Whether a value has the elements of a constant of zeros: itself, or expanded to a size that is computed."""
    while (node := producer(value, *SAME_ELEMENTS)) is not None:
        value = node.inputs[0]
    array = constant_array(value)
    return array is not None and not array.any()

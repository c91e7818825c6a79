"""Torch's table of translations with onnxfn's own, and torch's decompositions of the operators that are not in it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType, SimpleNamespace
from typing import Any

from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.models.patching import replaced


@cache
def onnx_registry() -> Any:
    """Torch's table from operators to ONNX functions, with onnxfn's own translations; built once.

    onnxscript parses the source of each function to tell its domain, which torch does not read. That takes four fifths
    of the time.
    """
    from onnxscript.values import TracedOnnxFunction

    from onnxfn.graphs.translations.complex_translations import complex_translations
    from onnxfn.graphs.translations.translations import translations

    with replaced(TracedOnnxFunction, "function_ir", SimpleNamespace(domain="")):
        registry = torch_name("exporter_registry").from_torchlib()
    for operator, function in translations().items():
        registry.register_op(operator, function)
    for operator, function in complex_translations().items():
        registry.register_op(operator, function, is_complex=True)
    return registry


@cache
def decompositions() -> Mapping[Any, Any]:
    """From an operator without a translation to the function of torch that computes it; built once (50 ms).

    An operator that is registered later is not in it: torch's own second trace, which reads its table anew, decomposes
    such an operator.
    """
    tables = torch_name("exporter_decompositions")
    translated = set(tables.get_onnx_implemented_overloads(onnx_registry()))
    return MappingProxyType(tables.create_onnx_friendly_decomposition_table(translated))

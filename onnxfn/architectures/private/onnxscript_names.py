"""The private names of onnxscript that onnxfn uses, and the required form of each (onnxscript 0.7)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from onnxfn.specs.converters import at_path

NAMES: Mapping[str, str] = MappingProxyType(
    {
        "FoldConstantsPass": "onnxscript.optimizer._constant_folding:FoldConstantsPass",
        "no_op_rules": "onnxscript.rewriter.rules.common._no_op:rules",
        "default_rules": "onnxscript.rewriter:_DEFAULT_REWRITE_RULES",
    }
)
"""Name in onnxfn -> path."""

ATTRIBUTES: Mapping[str, str] = MappingProxyType({"_target_pattern": "onnxscript.rewriter._rewrite_rule:RewriteRule"})
"""Private attribute of an object of onnxscript -> the path of its class."""


def onnxscript_name(name: str) -> Any:
    """The object of onnxscript at the path of a name.

    >>> onnxscript_name("FoldConstantsPass").__name__
    'FoldConstantsPass'
    """
    return at_path(NAMES[name])

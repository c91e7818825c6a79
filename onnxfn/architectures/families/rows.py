"""Rows of model types that have the same spec."""

from __future__ import annotations

from collections.abc import Mapping

from onnxfn.specs.algebra.spec import ExportSpec


def rows(model_types: str, spec: ExportSpec) -> Mapping[str, ExportSpec]:
    """The spec of each of these model types, separated by spaces.

    >>> list(rows("bert albert", ExportSpec()))
    ['bert', 'albert']
    """
    return dict.fromkeys(model_types.split(), spec)

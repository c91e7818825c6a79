"""`for_provider`: the spec with the options that the program which runs its graphs takes. The profiles are data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import cast

from attrs import frozen

from onnxfn.specs.algebra.compose import compose
from onnxfn.specs.algebra.spec import ExportSpec, FloatDtype, Target
from onnxfn.specs.axis_symbols import symbols_in
from onnxfn.specs.edits.as_edit import as_edit
from onnxfn.specs.edits.tensors import with_dtypes, with_shapes
from onnxfn.specs.errors import refuse_unknown


@frozen
class GraphCheck:
    """A check of a finished graph by name, its limit, what happens otherwise, and whether that ends the export."""

    check: str
    otherwise: str
    limit: int | None = None
    is_error: bool = False


@frozen
class Provider:
    """A profile: the options that a program takes, the checks of graphs for it, and where both are from."""

    name: str
    runtime: str
    opset: int
    dtype: str
    sizes: Mapping[str, int]
    checks: tuple[GraphCheck, ...]
    source: str


_ROWS = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
PROVIDERS: Mapping[str, Provider] = MappingProxyType(
    {row["name"]: Provider(**{**row, "checks": tuple(GraphCheck(**check) for check in row["checks"])}) for row in _ROWS}
)
"""A name -> its profile. The operators of each are in graphs/providers."""


def provider_dtype(name: str) -> str:
    """The dtype of a profile; UnknownName if there is no such profile."""
    refuse_unknown("provider", name, PROVIDERS)
    return PROVIDERS[name].dtype


@as_edit
def for_provider(spec: ExportSpec, name: str, *, dtype: str | None = None) -> ExportSpec:
    """The spec for a program that runs the graphs: its opset, dtype and fixed sizes. Later edits can change these.

    The export then compares each graph with what the program has, before weights are read. What it refuses is an
    error, what is slow there a remark of the result: both name operators and nodes, and say what to do.

    Args:
        spec: A spec.
        name: `cpu`, `cuda`, `webgpu`, `directml`, `tensorrt`, `openvino`, `qnn` or `coreml`.
        dtype: Another dtype than that of the profile, as in `with_dtypes`.

    Raises:
        UnknownName: another name.

    Source: the rows of `specs/edits/providers.json` and the tables in `graphs/providers` name theirs.

    >>> from onnxfn import spec_for
    >>> for_provider(spec_for("bert", "fill-mask"), "cuda").target
    Target(opset=23, float_dtype='float16', provider='cuda')
    """
    spec = with_dtypes(spec, float=cast("FloatDtype", dtype or provider_dtype(name)))
    profile, symbols = PROVIDERS[name], {*symbols_in(spec)}
    spec = with_shapes(spec, **{axis: size for axis, size in profile.sizes.items() if axis in symbols})
    return compose(spec, ExportSpec(target=Target(opset=profile.opset, provider=name)))

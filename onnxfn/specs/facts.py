"""Facts: functions that return small specs of one fact each, for `compose`."""

from __future__ import annotations

from onnxfn.specs.axes import AxisMap
from onnxfn.specs.compose import compose
from onnxfn.specs.records import (
    Constant,
    ExportSpec,
    InputSpec,
    Kind,
    OutputSpec,
    Overlay,
    Patch,
    Pin,
    Plain,
    Source,
)
from onnxfn.specs.tensor_paths import Path

TOKENS = "batch_size sequence_length"
"""The axes of a batch of texts."""


SOURCE = "batch_size encoder_sequence_length"
"""The axes of a batch of texts that an encoder reads."""


TARGET = "batch_size decoder_sequence_length"
"""The axes of a batch of texts that a decoder writes."""


def takes(
    name: str, axes: str | AxisMap, generator: str, *, kind: Kind = "int", path: Path = (), when: Source | None = None
) -> ExportSpec:
    """A spec of one input: `takes("input_ids", "batch_size sequence_length", "token_ids")`."""
    return ExportSpec(inputs=(InputSpec(name, axes, generator, kind, path, when),))


def gives(name: str, axes: str | AxisMap, *, path: Path = (), when: Source | None = None) -> ExportSpec:
    """A spec of one output: `gives("logits", "batch_size _")`."""
    return ExportSpec(outputs=(OutputSpec(name, axes, path, when),))


def case(name: str, *specs: ExportSpec) -> ExportSpec:
    """A spec that has one more case of the check: other sizes, other dummies."""
    return ExportSpec(cases=(Overlay(name, compose(*specs)),))


def always(**arguments: Plain) -> ExportSpec:
    """A spec of arguments that `forward` always gets: `always(use_cache=False)`."""
    return ExportSpec(constants=tuple(Constant(name, value) for name, value in arguments.items()))


def patched(target: str, *, by: str, why: str) -> ExportSpec:
    """A spec of one function that is replaced while the model is traced; both are `package.module:Class.method`."""
    return ExportSpec(patches=(Patch(target, by, why),))


def pins(name: str, value: Source, *, when: Source | None = None) -> ExportSpec:
    """A spec of an axis that models of some configurations fix: `pins("height", "image_size", when="fixed")`."""
    return ExportSpec(pins=(Pin(name, value, when),))

"""Codes of weights and scales of activations that are chosen with real inputs: a text, or pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from attrs import evolve, frozen

from onnxfn.check.variants.text_references import TextTokens, reads_text, text_inputs, text_tokens, vocabulary
from onnxfn.graphs.quantization.activations import quantize_activations, static_activations, unquantized_nodes
from onnxfn.graphs.quantization.quantized_slots import bind_quantized_weights
from onnxfn.models.forward import torch_outputs
from onnxfn.models.product_inputs import FEWEST, product_inputs
from onnxfn.models.torch_modes import ticking_operators
from onnxfn.run.value_ranges import value_ranges
from onnxfn.specs.algebra.dummies import Array, dummies
from onnxfn.specs.algebra.planned import Part, Plan
from onnxfn.specs.errors import InvalidSpec, errors_as, first_line
from onnxfn.specs.plan.real_inputs import picture_inputs
from onnxfn.specs.quantization import STATIC
from onnxfn.specs.stored.reports import StageTimer

RUNS, RUN_TOKENS, RUN_PICTURES = 8, 512, 4
"""The runs of a model, and the tokens of a text or the pictures of each."""

OUTSIDE = 1e-5
"""The share of the elements of an activation that are clipped at each end."""

EXPERTS = f"experts that less than a token of the calibration for {1 / FEWEST:g} inputs reaches have the nearest codes"
INSIDE = "activations inside of nodes stay floats beside static weights"
"""What remarks say of matrices of experts, and of nodes."""

Left = dict[tuple[str, str], dict[str, None]]
"""From the name of a part and a remark to the names of what it is about."""

Inputs = Sequence[Mapping[str, Array]]
"""The inputs of each run of a part."""


@frozen
class Source:
    """Where the inputs come from: a file or texts of the caller's, a preprocessor, a checkpoint with a tokenizer."""

    file: Path | tuple[str, ...] | None
    preprocessor: Any
    checkpoint: Path | None


def calibration_text(file: Path | tuple[str, ...] | None) -> str:
    """The text of a file, or all texts; without these the start of each topic of Python's help, 30,000 characters."""
    if isinstance(file, tuple):
        return "\n\n".join(file)
    if file is not None:
        with _file_errors(file):
            return file.read_text(encoding="utf-8")
    from pydoc_data.topics import topics

    return "\n\n".join(topic[:400] for topic in topics.values())


def _file_errors(file: Path) -> AbstractContextManager[None]:
    return errors_as(lambda error: InvalidSpec(f"calibration={str(file)!r} cannot be read: {first_line(error)}"))


def calibrated(source: Source, model: Any, part: Part, plan: Plan, graph: Any, timed: StageTimer, left: Left) -> Any:
    """The graph of a part with what its rules choose by runs on real inputs; `left` gets what keeps nearest codes."""
    if any(rule.calibrated for rule in part.spec.target.quantization) and reads_text(part.spec):
        graph = _with_calibrated_weights(model, part, graph, timed, _text_runs(source, model, part, plan), left)
    left.update({(part.name, INSIDE): dict.fromkeys(nodes)} if (nodes := unquantized_nodes(graph)) else {})
    if static_activations(graph):
        graph = _with_static_activations(part, graph, timed, _inputs(source, model, part, plan))
    return graph


def left_lines(left: Left) -> list[str]:
    """The remarks on what was not calibrated: how much, and the first name of each."""
    return [f"{part}: {text}: {len(names)}, such as {next(iter(names))}" for (part, text), names in left.items()]


def _inputs(source: Source, model: Any, part: Part, plan: Plan) -> Inputs:
    """The inputs of each run of a part."""
    if isinstance(source.file, Path) and source.file.suffix == ".npz":
        with _file_errors(source.file), np.load(source.file) as arrays:
            own = {name: arrays[name] for name in part.inputs}
        count = min(map(len, own.values()))
        return [{name: array[row : row + 1] for name, array in own.items()} for row in range(count)]
    if reads_text(part.spec):
        return _text_runs(source, model, part, plan)
    pictures = partial(picture_inputs, part.spec, source.preprocessor, count=RUN_PICTURES)
    return [pictures(seed=seed) or dummies(part.spec, {}, seed=seed) for seed in range(1, RUNS + 1)]


def calibration_tokens(source: Source, plan: Plan) -> TextTokens:
    """The tokens of the text of a source. InvalidSpec without a tokenizer, or if the model lacks one of them."""
    tokens = text_tokens(source.preprocessor, source.checkpoint, calibration_text(source.file))
    if tokens is None or not len(tokens.ids):
        what = "a text; it is empty" if tokens else "a tokenizer; pass it, preprocessor=..., or checkpoint=..."
        is_static = any(rule.kind == STATIC for part in plan.parts for rule in part.spec.target.quantization)
        raise InvalidSpec(f"{'measured ranges of activations' if is_static else 'calibrated weights'} need {what}")
    known = vocabulary(plan)
    if 0 < known <= tokens.largest:
        raise InvalidSpec(
            f"the tokenizer gives the token {tokens.largest} for the calibration text; the model has the tokens 0 to "
            f"{known - 1}; pass the tokenizer of this model, preprocessor=..., or a text without it, calibration=..."
        )
    return tokens


def _text_runs(source: Source, model: Any, part: Part, plan: Plan) -> Inputs:
    """The inputs of each run of a part that reads the text of a source."""
    tokens = calibration_tokens(source, plan)
    starts = range(0, min(RUNS * RUN_TOKENS, len(tokens.ids)), RUN_TOKENS)
    pieces = (evolve(tokens, ids=tokens.ids[start : start + RUN_TOKENS]) for start in starts)
    return [text_inputs(model, part, plan, piece, RUN_TOKENS) for piece in pieces]


def _with_calibrated_weights(model: Any, part: Part, graph: Any, timed: StageTimer, inputs: Inputs, left: Left) -> Any:
    """The graph whose calibrated weights get their codes, when they are written, from runs of the model."""
    import torch

    def runs() -> Iterator[Callable[[], Any]]:
        with timed("calibrate", part.name) as tick, ticking_operators(tick):
            yield from (partial(torch_outputs, model, part, arrays, torch.float32) for arrays in inputs)

    def leave(name: str, index: int) -> None:
        left.setdefault((part.name, EXPERTS), {})[f"{name}[{index}]"] = None

    tensors = model.state_dict(keep_vars=True).__getitem__
    return bind_quantized_weights(graph, tensors, product_inputs(model, runs, leave=leave))


def _with_static_activations(part: Part, graph: Any, timed: StageTimer, inputs: Inputs) -> Any:
    """The graph with integers in place of activations, whose ranges ONNX Runtime measures on the graph without them."""
    import onnx_ir

    names = static_activations(graph).keys()
    with TemporaryDirectory() as folder, timed("calibrate", part.name) as tick:
        file = Path(folder, "model.onnx")
        onnx_ir.save(graph, file, external_data="weights")
        ranges = value_ranges(file, inputs, names, tick=tick, outside=OUTSIDE)
    ports = {name: [each[name] for each in inputs] for name in names & part.inputs.keys()}
    ends = {name: (min(map(np.min, arrays)), max(map(np.max, arrays))) for name, arrays in ports.items()}
    return quantize_activations(graph, {**ranges, **ends})

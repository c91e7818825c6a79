"""Weights whose codes are chosen with real inputs: PyTorch reads a text while their file is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from attrs import evolve

from onnxfn.check.variants.text_references import TextTokens, text_inputs, text_tokens
from onnxfn.models.forward import torch_outputs
from onnxfn.models.product_inputs import product_inputs
from onnxfn.models.torch_modes import ticking_operators
from onnxfn.specs.algebra.planned import Part, Plan
from onnxfn.specs.errors import InvalidSpec, errors_as, first_line
from onnxfn.specs.stored.reports import StageTimer
from onnxfn.weights.calibrated import InputErrors

RUNS, RUN_TOKENS = 8, 512
"""The runs of a model on a text, and the tokens of each."""

TOPIC = 400
"""Characters of each topic of Python's own help that are read."""


def calibration_text(file: Path | None) -> str:
    """The text of a file; without one the beginnings of the topics of Python's own help, 30,000 characters.

    InvalidSpec if the file cannot be read, or is no text.
    """
    if file is not None:
        with errors_as(lambda error: InvalidSpec(f"calibration={str(file)!r} cannot be read: {first_line(error)}")):
            return file.read_text(encoding="utf-8")
    from pydoc_data.topics import topics

    return "\n\n".join(topic[:TOPIC] for topic in topics.values())


CalibrationText = tuple[Path | None, Any, Path | None]
"""A file with a text, or None for Python's help; the preprocessor or the checkpoint that has a tokenizer."""


def calibration_tokens(text: CalibrationText) -> TextTokens:
    """The tokens of a text of calibration. InvalidSpec without a tokenizer."""
    file, preprocessor, checkpoint = text
    tokens = text_tokens(preprocessor, checkpoint, calibration_text(file))
    if tokens is None:
        raise InvalidSpec("calibrated weights need a tokenizer; pass it, preprocessor=..., or checkpoint=...")
    return tokens


def calibration_errors(
    tokens: TextTokens, model: Any, part: Part, plan: Plan, timed: StageTimer
) -> Callable[[Any], InputErrors | None]:
    """A function from a weight to the `InputErrors` that its codes follow from: see `product_inputs`."""
    import torch

    starts = range(0, RUNS * RUN_TOKENS, RUN_TOKENS)
    pieces = [evolve(tokens, ids=tokens.ids[start : start + RUN_TOKENS]) for start in starts if start < len(tokens.ids)]
    inputs = [text_inputs(model, part, plan, piece, RUN_TOKENS) for piece in pieces]

    def runs() -> Iterator[Callable[[], Any]]:
        with timed("calibrate", part.name) as tick, ticking_operators(tick):
            yield from (partial(torch_outputs, model, part, arrays, torch.float32) for arrays in inputs)

    return product_inputs(model, runs)

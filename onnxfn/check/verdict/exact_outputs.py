"""PyTorch's outputs in a wider dtype than that of the export: the exact reference of a check."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from onnxfn.check.verdict.norms import Norms
from onnxfn.check.verdict.precision import precision_of
from onnxfn.models.dtypes import in_dtype_if_small
from onnxfn.models.forward import torch_outputs
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.errors import first_line

ExactOutputs = Callable[[Part, Mapping[str, Array]], tuple[str, tuple[Array, ...]]]
"""From a part and its inputs to the name of the wider dtype and PyTorch's outputs in it. It may raise NoReference."""


class NoReference(Exception):
    """PyTorch cannot compute the outputs in a wider dtype; the message says why.

    Attributes:
        own: How far PyTorch's outputs in a wider dtype are from its own, if that is why: by more than rounding.
    """

    def __init__(self, message: str, own: Norms | None = None) -> None:
        super().__init__(message)
        self.own = own


@contextmanager
def no_reference(wider: str) -> Iterator[None]:
    """Raises NoReference for what the code of a model raises in a wider dtype, MemoryError excepted."""
    try:
        yield
    except Exception as error:
        if isinstance(error, MemoryError) or "allocate memory" in str(error):  # the RuntimeError of torch
            raise
        raise NoReference(f"{wider} cannot run: {first_line(error)}") from error


def exact_outputs(model: Any, dtype: str | None) -> ExactOutputs:
    """A function that computes PyTorch's outputs in the first of the wider dtypes of `dtype` that can run.

    The function holds the copies of a small model that it makes, from its first call until it is itself released. A
    large model is not copied: its weights are converted one by one. What fails once for a part is not tried again.
    """
    wider_copy = cache(lambda wider: in_dtype_if_small(model, wider))
    failures: dict[tuple[str, str], str] = {}

    def outputs(part: Part, arrays: Mapping[str, Array]) -> tuple[str, tuple[Array, ...]]:
        import torch

        for wider in precision_of(dtype).wider:
            if (part.name, wider) not in failures:
                try:
                    with no_reference(wider):
                        return wider, torch_outputs(wider_copy(wider), part, arrays, getattr(torch, wider))
                except NoReference as problem:
                    failures[part.name, wider] = str(problem)
        reasons = [text for (name, _), text in failures.items() if name == part.name]
        raise NoReference("; ".join(reasons) or f"there is no dtype wider than {dtype}")

    return outputs


def rounded_inputs(inputs: Mapping[str, Array], dtype: str | None) -> dict[str, Array]:
    """The inputs with each real number moved up or down by one unit roundoff of a dtype; empty if none is real.

    >>> rounded = rounded_inputs({"x": np.ones(4, np.float32), "ids": np.ones(4, np.int64)}, "float32")
    >>> float(np.abs(rounded["x"] - 1).max()) * 2**24, rounded["ids"].tolist()
    (1.0, [1, 1, 1, 1])
    """
    if not any(array.dtype.kind == "f" for array in inputs.values()):
        return {}
    random, roundoff = np.random.default_rng(0), precision_of(dtype).unit_roundoff
    return {
        name: array * (1 + roundoff * random.choice((-1.0, 1.0), array.shape)) if array.dtype.kind == "f" else array
        for name, array in inputs.items()
    }

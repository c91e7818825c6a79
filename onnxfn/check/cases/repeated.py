"""Whether PyTorch returns the same outputs when it is called again: a model that draws random numbers does not."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxfn.check.cases.references import Reference
from onnxfn.models.forward import torch_outputs
from onnxfn.specs.algebra.planned import Part

SAME = 1e-3
"""A relative difference that order of summation may make, and random numbers exceed."""


def random_findings(model: Any, part: Part, reference: Reference) -> tuple[str, ...]:
    """The finding for a model whose outputs differ from call to call; empty for any other model."""
    again = torch_outputs(model, part, reference.inputs)
    pairs = zip(part.spec.outputs, reference.outputs, again, strict=True)
    different = [output.name for output, first, second in pairs if not _agree(first, second)]
    if not different:
        return ()
    changed = f"PyTorch itself returns other values of {different[0]!r} at the next call"
    return (f"{changed}: the model draws random numbers; take these as an input, or export with check=False",)


def _agree(first: Any, second: Any) -> bool:
    return first.shape == second.shape and np.allclose(first, second, rtol=SAME, atol=SAME, equal_nan=True)

"""onnx.reference: the outputs of a file, computed with numpy from the text of the ONNX standard alone."""

from __future__ import annotations

from typing import Any

from lines import answer_jobs, arrays
from onnx.reference import ReferenceEvaluator


def result(job: dict[str, Any]) -> dict[str, Any]:
    """The outputs by their names."""
    evaluator = ReferenceEvaluator(job["file"])
    outputs = evaluator.run(None, arrays(job["feeds"]))
    return {name: each.tolist() for name, each in zip(evaluator.output_names, outputs, strict=True)}


if __name__ == "__main__":
    answer_jobs(result)

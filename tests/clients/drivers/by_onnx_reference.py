"""onnx.reference: the outputs of a file, computed with numpy from the text of the ONNX standard alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from lines import answer_jobs
from onnx.reference import ReferenceEvaluator


def result(job: dict[str, Any]) -> dict[str, Any]:
    """The outputs by their names. Each input is `{"dims", "data", "dtype"}`."""
    evaluator = ReferenceEvaluator(job["file"])
    feeds = {name: np.array(each["data"], each["dtype"]).reshape(each["dims"]) for name, each in job["feeds"].items()}
    return {name: each.tolist() for name, each in zip(evaluator.output_names, evaluator.run(None, feeds), strict=True)}


if __name__ == "__main__":
    answer_jobs(result)

"""OpenVINO: the outputs of a file on the CPU, in float32."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import openvino
from lines import answer_jobs


@cache
def compiled(file: str) -> Any:
    return openvino.Core().compile_model(file, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})


def result(job: dict[str, Any]) -> dict[str, Any]:
    """The outputs by their names. Each input is `{"dims", "data", "dtype"}`."""
    feeds = {name: np.array(each["data"], each["dtype"]).reshape(each["dims"]) for name, each in job["feeds"].items()}
    results = compiled(job["file"])(feeds)
    return {name: results[name].tolist() for name in job["outputs"]}


if __name__ == "__main__":
    answer_jobs(result)

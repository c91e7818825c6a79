"""OpenVINO on the CPU: the outputs of a file, computed in float32."""

from __future__ import annotations

from functools import cache
from typing import Any

import openvino
from lines import answer_jobs, arrays


@cache
def compiled(file: str) -> Any:
    return openvino.Core().compile_model(file, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})


def result(job: dict[str, Any]) -> dict[str, Any]:
    """The outputs by their names."""
    model = compiled(job["file"])
    feeds = arrays(job["feeds"])
    outputs = model({name: feeds[name] for each in model.inputs for name in each.names if name in feeds})
    return {name: outputs[each].tolist() for each in model.outputs for name in each.names}


if __name__ == "__main__":
    answer_jobs(result)

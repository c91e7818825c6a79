"""Jobs from stdin, one JSON in a line; a line of JSON for each on stdout."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np


def arrays(feeds: dict[str, Any]) -> dict[str, Any]:
    """The tensors of a job: each is `{"type", "dims", "data"}`."""
    return {name: array(each) for name, each in feeds.items()}


def array(tensor: dict[str, Any]) -> Any:
    return np.array(tensor["data"], tensor["type"]).reshape(tensor["dims"])


def answer_jobs(result: Callable[[dict[str, Any]], Any]) -> None:
    """Prints `{"result": ...}` or `{"error": ...}` for each job."""
    for line in sys.stdin:
        print(json.dumps(_answer(result, json.loads(line))), flush=True)


def _answer(result: Callable[[dict[str, Any]], Any], job: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"result": result(job)}
    except Exception as error:  # noqa: BLE001 - the client is not ours: what it raises is its answer
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}

"""Jobs from stdin, one JSON in a line; a line of JSON for each on stdout."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from typing import Any


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

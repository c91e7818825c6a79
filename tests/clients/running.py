"""Clients run as programs: jobs go in, results come out, both as JSON."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from client_environments import WITHOUT_NETWORK, command

DRIVERS = Path(__file__).parent / "drivers"
SECONDS = 300

PROGRAMS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "transformers.js": ("transformers.js", "transformers_js.mjs"),
        "web": ("transformers.js", "by_chromium.py"),
        "genai": ("genai", "by_genai.py"),
        "optimum": ("optimum", "by_optimum.py"),
        "fastembed": ("fastembed", "by_fastembed.py"),
        "onnx": ("onnx", "by_onnx_reference.py"),
    }
)
"""From a client to its environment and its driver."""


class ClientError(Exception):
    """A client gives an error for a job, or ends without a result."""


def run_client(client: str, job: Mapping[str, Any]) -> dict[str, Any]:
    """What a client gives for a job: `{"result": ...}` and what else it says."""
    environment, driver = PROGRAMS[client]
    done = subprocess.run(
        command(environment, DRIVERS / driver),
        input=json.dumps(job) + "\n",
        env={**os.environ, **WITHOUT_NETWORK},
        check=False,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith(('{"result"', '{"error"'))]
    if not lines:
        raise ClientError(f"{client} ended with {done.returncode}: {done.stderr.strip()[-800:]}")
    answer = json.loads(lines[-1])
    if "error" in answer:
        raise ClientError(f"{client}: {answer['error']}")
    return answer

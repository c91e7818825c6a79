"""`pytest -m fast` runs without torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
HEAVY = {"torch", "transformers", "onnx", "onnxruntime"}
PROGRAM = """
import json, sys
import pytest
status = pytest.main(["-q", "-m", "fast", "--hypothesis-profile=single", "-p", "no:cacheprovider", "tests"])
print(json.dumps([int(status), sorted(sys.modules)]))
"""


def test_the_fast_tests_pass_and_import_no_torch():
    """One example of each law: the examples are the subject of the run itself, the imports of this test."""
    run = subprocess.run([sys.executable, "-c", PROGRAM], cwd=TESTS.parent, capture_output=True, check=True, text=True)
    status, modules = json.loads(run.stdout.splitlines()[-1])
    assert status == 0, run.stdout
    assert HEAVY & set(modules) == set()
    assert {"onnxfn.specs.compose", "onnxfn.export.pipeline"} <= set(modules)

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

class FirstOfEach:
    def pytest_collection_modifyitems(self, items):
        functions = {(item.path, item.parent.name, item.originalname): item for item in reversed(items)}
        items[:] = [item for item in items if item in functions.values()]

options = ["-q", "-m", "fast", "--hypothesis-profile=single", "-p", "no:cacheprovider", "tests"]
status = pytest.main(options, plugins=[FirstOfEach()])
print(json.dumps([int(status), sorted(sys.modules)]))
"""


def test_the_fast_tests_pass_and_import_no_torch():
    """The first case of each test, and one example of each law: the run itself has all, here only imports count."""
    run = subprocess.run([sys.executable, "-c", PROGRAM], cwd=TESTS.parent, capture_output=True, check=True, text=True)
    status, modules = json.loads(run.stdout.splitlines()[-1])
    assert status == 0, run.stdout
    assert HEAVY & set(modules) == set()
    assert {"onnxfn.specs.compose", "onnxfn.export.pipeline"} <= set(modules)

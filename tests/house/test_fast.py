"""`pytest -m fast` runs without torch; slow tests are known by their names."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from slow_tests import KEPT, SLOW

TESTS = Path(__file__).parents[1]
HEAVY = {"torch", "transformers", "onnx", "onnxruntime"}
PROGRAM = """
import json, sys
import pytest

class FirstOfEach:
    def pytest_collection_modifyitems(self, items):
        kinds = {"file": lambda item: item.path, "test": lambda item: (item.path, item.originalname)}
        first = {kinds[sys.argv[1]](item): item for item in reversed(items)}
        items[:] = [item for item in items if item in first.values()]

options = ["-q", "-m", "fast", "--hypothesis-profile=single", "-p", "no:cacheprovider", "tests"]
status = pytest.main(options, plugins=[FirstOfEach()])
print(json.dumps([int(status), sorted(sys.modules)]))
"""


@pytest.mark.parametrize("file", sorted({slow.partition("::")[0] for slow in SLOW}))
def test_a_slow_test_exists(file):
    """A test of another name would run by default."""
    names = {slow.partition("::")[2].partition("[")[0] for slow in SLOW if slow.startswith(f"{file}::")}
    text = (TESTS / file).read_text()
    assert [name for name in names if f"def {name}(" not in text] == []


@pytest.mark.parametrize("sample", KEPT)
def test_what_is_kept_of_a_sample_is_in_it(sample):
    file, _, name = sample.partition("::")
    text = (TESTS / file).read_text()
    assert f"def {name}(" in text
    assert [kept for kept in KEPT[sample] if f'"{kept.partition("-")[0]}"' not in text] == []


@pytest.mark.parametrize("kind", ["file", pytest.param("test", marks=pytest.mark.sweep)])
def test_the_fast_tests_pass_and_import_no_torch(kind):
    """The first test of each file or of each kind, and one example of a law: the run itself has all."""
    words = [sys.executable, "-c", PROGRAM, kind]
    run = subprocess.run(words, cwd=TESTS.parent, capture_output=True, check=True, text=True)
    status, modules = json.loads(run.stdout.splitlines()[-1])
    assert status == 0, run.stdout
    assert HEAVY & set(modules) == set()
    assert {"onnxfn.specs.algebra.compose", "onnxfn.export.run.pipeline"} <= set(modules)

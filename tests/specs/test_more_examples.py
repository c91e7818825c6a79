"""The laws hold for more examples than the default run tries."""

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


@pytest.mark.sweep
def test_the_laws_hold_for_300_examples():
    options = ["-q", "--hypothesis-profile=many", "-p", "no:cacheprovider", "tests/specs/test_laws.py"]
    command = [sys.executable, "-m", "pytest", *options]
    run = subprocess.run(command, cwd=TESTS.parent, capture_output=True, check=False, text=True)
    assert run.returncode == 0, run.stdout

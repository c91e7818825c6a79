"""`import onnxfn` prints nothing, changes nothing in the process, imports no heavy library, and is fast."""

import json
import os
import subprocess
import sys

import pytest
from public_names import MODULES

import onnxfn

HEAVY = ("torch", "transformers", "onnx", "onnxruntime", "onnxscript", "onnx_ir")

COMPARED = """
import json, logging, os, signal, sys, threading

def state():
    handlers = [str(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
    hooks = [str(hook) for hook in (sys.excepthook, sys.displayhook, sys.stdout, sys.stderr)]
    logs = [logging.root.level, len(logging.root.handlers)]
    return [dict(os.environ), os.getcwd(), handlers, hooks, logs, threading.active_count()]

before = state()
import onnxfn
print(json.dumps({"unchanged": before == state(), "modules": sorted(sys.modules)}))
"""

TIMED = """
from time import perf_counter
start = perf_counter()
import attrs, numpy, toolz
middle = perf_counter()
import onnxfn
print((perf_counter() - middle) / (middle - start))
"""


def run_python(code, **environment):
    """The standard output and the standard error of a new Python process."""
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True, env={**os.environ, **environment}
    )
    return process.stdout, process.stderr


@pytest.fixture(scope="module")
def imported():
    """What a new process prints about its state after the import."""
    return run_python(COMPARED)


def test_importing_prints_nothing(imported):
    output, errors = imported
    assert len(output.splitlines()) == 1
    assert errors == ""


def test_importing_imports_no_heavy_library(imported):
    assert set(HEAVY) & set(json.loads(imported[0])["modules"]) == set()


def test_the_public_names_need_no_heavy_library():
    """All public names at once, functions and records."""
    modules = json.loads(run_python("import json, sys; from onnxfn import *; print(json.dumps([*sys.modules]))")[0])
    assert "onnxfn.export.run.pipeline" in modules
    assert set(HEAVY) & set(modules) == set()


def test_the_function_export_is_not_hidden_by_the_folder_of_its_name():
    import onnxfn.export.run.pipeline

    assert callable(onnxfn.export)


def test_importing_changes_nothing_in_the_process(imported):
    assert json.loads(imported[0])["unchanged"]


def test_importing_is_fast(tmp_path):
    """With compiled files, as after an installation; the first run compiles them. A ratio holds on a busy machine."""
    compiled = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(tmp_path)}
    assert min(float(run_python(TIMED, **compiled)[0]) for _ in range(5)) < 1  # the dependencies alone take as long


def test_the_help_of_a_command_imports_no_pydantic():
    """Its import takes a third of the time. The help of `onnxfn` itself has the options of completion."""
    code = "import sys; sys.argv[1:] = {}; from onnxfn.__main__ import app\ntry: app()\n"
    code += "except SystemExit: print(*sys.modules)"
    command, program = (run_python(code.format(words))[0] for words in (["export", "--help"], ["--help"]))
    assert "--help-all" in command
    assert "typer._adapters" not in command.split()
    assert "--install-completion" in program


def test_completion_offers_the_public_names_alone():
    assert set(dir(onnxfn)) - {"__all__", "__doc__", *MODULES} == set(onnxfn.__all__)
    assert onnxfn.__version__ == onnxfn.specs.version.VERSION

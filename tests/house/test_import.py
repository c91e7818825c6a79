"""What importing onnxfn does: little, quietly and fast."""

import json
import os
import subprocess
import sys

HEAVY = ("torch", "transformers", "onnx", "onnxruntime", "onnxscript", "onnx_ir")
RATIO = 4
"""How many times as long as its own dependencies `import onnxfn` may take."""

LOOKED_AROUND = """
import json, logging, os, signal, sys, threading

def around():
    handlers = [str(signal.getsignal(one)) for one in (signal.SIGINT, signal.SIGTERM)]
    hooks = [str(hook) for hook in (sys.excepthook, sys.displayhook, sys.stdout, sys.stderr)]
    logs = [logging.root.level, len(logging.root.handlers)]
    return [dict(os.environ), os.getcwd(), handlers, hooks, logs, threading.active_count()]

before = around()
import onnxfn
print(json.dumps(before == around()))
"""

TIMED = """
from time import perf_counter
start = perf_counter()
import attrs, numpy, toolz
middle = perf_counter()
import onnxfn
print((perf_counter() - middle) / (middle - start))
"""


def fresh(code, **surroundings):
    """What a fresh Python prints, and what it says on the error stream."""
    around = {**os.environ, **surroundings}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True, env=around)
    return ran.stdout, ran.stderr


def test_importing_prints_nothing():
    assert fresh("import onnxfn") == ("", "")


def test_importing_brings_none_of_the_heavy_libraries():
    told, _ = fresh("import json, sys, onnxfn; print(json.dumps(sorted(sys.modules)))")
    loaded = json.loads(told)
    assert "onnxfn.export.pipeline" in loaded
    assert sorted(set(HEAVY) & set(loaded)) == []


def test_importing_changes_nothing_in_the_process():
    assert fresh(LOOKED_AROUND) == ("true\n", "")


def test_importing_is_fast(tmp_path):
    """With compiled files, as after an installation; the first run compiles them. A ratio holds on a busy machine."""
    compiled = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(tmp_path)}
    assert min(float(fresh(TIMED, **compiled)[0]) for _ in range(5)) < RATIO

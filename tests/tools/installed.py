"""Tests of the wheel, installed next to a given Python and torch; the checkout is not imported.

    python tests/tools/installed.py PYTHON[=TRANSFORMERS] ...

Each PYTHON is the interpreter of a virtual environment. The wheel of the last commit is installed there, with what it
needs and with the torch that the environment has. With a version of transformers, that one is used, from a folder of
its own: the environment keeps its own. The tests run in a copy of the repository without `onnxfn`. Prints for each
PYTHON a row of the table of tests/tools/README.md.
"""

import datetime as dt
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from next_release import installed, run

ROOT = Path(__file__).resolve().parents[2]
TESTED_WITH = ("pytest", "hypothesis", "sentencepiece")
SAMPLE = (
    "tests/architectures/test_private_names.py",
    "tests/graphs/test_capture.py",
    "tests/export/derive/test_own_modules.py",
    "tests/export/test_cli.py",
    "tests/run/test_generation.py",
    *(
        f"tests/architectures/test_rows.py::test_a_model_agrees_with_pytorch[{row}]"
        for row in (
            "albert-text-classification",
            "vit-image-classification",
            "depth_anything-depth-estimation",
            "clip-zero-shot-image-classification",
            "wav2vec2-automatic-speech-recognition",
            "decision_transformer-reinforcement-learning",
        )
    ),
    *(
        f"tests/architectures/test_decoders.py::test_a_decoder_agrees_with_pytorch[{row}-text-generation-with-past]"
        for row in ("llama", "gpt_bigcode", "mamba2")
    ),
    "tests/architectures/test_seq2seq.py::test_an_encoder_decoder_agrees_with_pytorch",
)
"""Private names, capture, own modules, the command line, decoding, and rows of each family: about two minutes."""
NEEDS_DEMO = "tests/export/test_cli.py::test_a_model_of_sentence_transformers_has_its_embedding_as_output"
"""It needs weights of the extra `demo`, which asks for the torch of the recorded results."""

VERSIONS = """
import importlib.metadata, platform, onnxfn
print(platform.python_version(), *map(importlib.metadata.version, ("torch", "transformers", "onnx", "onnxruntime")))
print(onnxfn.__file__, onnxfn.__version__)
"""


def wheel_and_tests(folder):
    """The wheel of the last commit, and a clone of the commit without the package."""
    tests = folder / "tests"
    run("git", "clone", "--quiet", str(ROOT), str(tests), folder=folder)
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder), str(tests), folder=folder)
    shutil.rmtree(tests / "onnxfn")
    return next(folder.glob("*.whl")), tests


def install(python, wheel, folder):
    """Install the wheel with what it needs; pip refuses if the torch that is there is out of its range."""
    torch = installed(python, "torch")
    run(python, "-m", "pip", "install", "--quiet", f"torch=={torch}", str(wheel), *TESTED_WITH, folder=folder)
    run(python, "-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps", str(wheel), folder=folder)


def with_transformers(python, version, folder):
    """Variables of the environment with which a Python imports a version of transformers; none for its own."""
    if not version:
        return {}
    target = str(folder / f"transformers-{version}")
    pip = (python, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target)
    run(*pip, f"transformers=={version}", folder=folder)
    return {"PYTHONPATH": target}


def row(python, version, wheel, tests):
    """A row of the table: versions, date, counts. Raises an error if the package is not the installed one."""
    install(python, wheel, tests)
    environment = with_transformers(python, version, wheel.parent)
    versions, package = run(python, "-c", VERSIONS, folder=tests, environment=environment).splitlines()
    print(package, file=sys.stderr)
    if "site-packages" not in package:
        raise SystemExit(f"{package} is not the installed package")
    pytest = (python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "")  # pairs of the sweep, too
    tried = subprocess.run(
        [*pytest, "--deselect", NEEDS_DEMO, *SAMPLE],
        cwd=tests,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    print(tried.stdout[-4000:], file=sys.stderr)
    counts = re.sub(r", \d+ deselected|\x1b\[\d+m", "", tried.stdout.strip().splitlines()[-1]).strip("= ")
    return " | ".join(["", *versions.split(), dt.datetime.now(tz=dt.UTC).date().isoformat(), counts, ""]).strip()


def main(pythons):
    with TemporaryDirectory() as name:
        wheel, tests = wheel_and_tests(Path(name))
        for argument in pythons:
            python, _, version = argument.partition("=")
            print(row(str(Path(python).absolute()), version, wheel, tests), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

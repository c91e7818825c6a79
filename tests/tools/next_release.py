"""What a release of transformers, torch or onnxruntime changes for onnxfn, in at most 25 minutes.

    python tests/tools/next_release.py transformers==5.24.0 [--record]

Makes an environment with that version next to the packages of this Python, compares what onnxfn uses of it with the
version before, runs a sample of the tests, and prints tables. With `--record` they are written to
tests/tools/releases/ too. If pip does not install the version, a line says so; the names are compared if pip can
download it. The sample ends when the minutes are over; what did not run is counted.
"""

import argparse
import datetime as dt
import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

from release_differences import difference, table  # noqa: E402
from release_facts import ONNXRUNTIME, facts  # noqa: E402

IN_FULL = ("names in onnxfn", "functions in PATCHES", "attributes", "providers")
"""The groups of names whose changes are all listed."""
PACKAGES = ("torch", "transformers", "onnx", "onnxruntime", "onnxscript")
RELEASES = ROOT / "tests" / "tools" / "releases"

ROWS = "architectures/test_rows.py::test_a_model_agrees_with_pytorch"
FAMILIES = ("text", "vision", "detection", "multimodal", "audio", "series")
SAMPLE = {
    "private names": ("architectures/test_private_names.py",),
    "patches": (
        *(f"architectures/test_{name}.py" for name in ("functions", "packed_vision", "recurrent_functions")),
        *(f"architectures/test_{name}.py" for name in ("image_patches", "tiles")),
        "models/test_patching.py",
        "models/test_argument_builders.py",
    ),
    "decoders with past": (
        "architectures/test_decoders.py::test_a_decoder_agrees_with_pytorch",
        "architectures/test_decoders.py::test_decoding_past_the_window_equals_the_forward_without_a_cache",
        "architectures/test_seq2seq.py::test_an_encoder_decoder_agrees_with_pytorch",
        "architectures/test_seq2seq.py::test_marian_generates_the_tokens_of_transformers",
    ),
    "parts": ("architectures/test_every_part.py::test_each_part_agrees_with_pytorch",),
    "derived types": (
        "architectures/test_every_head.py::test_a_head_that_no_row_names_agrees_with_pytorch",
        "export/derive/test_derive.py",
        "export/derive/test_derived_outputs.py",
    ),
    "rows": (ROWS,),
    "captures and checks": ("graphs/test_capture.py", "run/test_generation.py", "export/derive/test_own_modules.py"),
}
"""Group -> its tests. The rows are counted for each family."""


def run(*command, folder=ROOT, environment=None):
    done = subprocess.run(
        command, cwd=folder, check=False, capture_output=True, text=True, env={**os.environ, **(environment or {})}
    )
    if done.returncode:
        lines = [line.strip() for line in f"{done.stdout}\n{done.stderr}\n".splitlines() if line.strip()] or [
            "no message"
        ]
        told = [line for line in lines if line.startswith("ERROR: Cannot") or "requested (constraint)" in line]
        raise RuntimeError(" ".join(told) or lines[-1])
    return done.stdout


# Versions


def version_before(package, version):
    from packaging.version import Version

    printed = run(sys.executable, "-m", "pip", "index", "versions", package)
    versions = re.search(r"Available versions: (.*)", printed)[1].split(", ")
    return str(max(each for each in map(Version, versions) if each < Version(version) and not each.local))


def site_packages(python):
    return Path(run(str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())


def installed(python, package):
    program = f"from importlib.metadata import version; print(version('{package}'))"
    return run(str(python), "-c", program).strip()


def environment_with(package, version, folder):
    """The Python of an environment with a version; all else is what this Python has, and what the version asks for."""
    python = folder / "bin" / "python"
    if not python.exists():
        run(sys.executable, "-m", "venv", str(folder))
        (site_packages(python) / "below.pth").write_text(f"{site_packages(sys.executable)}\n")
    if installed(python, package).partition("+")[0] != version:
        run(str(python), "-m", "pip", "install", f"{package}=={version}")
    return python


def unpacked(package, version, folder):
    """The folder of a version of a package: that of this Python if it has the version, else from its wheel."""
    if installed(sys.executable, package).partition("+")[0] == version:
        return site_packages(sys.executable) / package
    run(sys.executable, "-m", "pip", "download", "--no-deps", "-d", str(folder), f"{package}=={version}")
    with zipfile.ZipFile(next(folder.glob(f"{package}-{version}*.whl"))) as wheel:
        names = [name for name in wheel.namelist() if package != "torch" or name.endswith((".py", ".pyi"))]
        wheel.extractall(folder / version, names)
    return folder / version / package


def facts_of(package, folder):
    if package == "onnxruntime":
        return json.loads(run(sys.executable, "-c", ONNXRUNTIME, environment={"PYTHONPATH": str(folder.parent)}))
    return facts(package, folder)


def names_table(package, before, version, python, folder):
    new = site_packages(python) / package if python else None
    after = facts_of(package, new if new and new.exists() else unpacked(package, version, folder))
    earlier = facts_of(package, unpacked(package, before, folder))
    compared = [f"{group}: {len(earlier.get(group, ())):,} and {len(after[group]):,}" for group in after]
    changes = table(difference(earlier, after), all_of=IN_FULL)
    return [f"Compared with {before}. Found in it and in {version}: {'; '.join(compared)}.", "", *changes]


# The sample


def group_of(test):
    """The group of a test; that of a row is its family.

    >>> group_of("tests/architectures/test_private_names.py::test_a_name_has_its_path[torch]")
    'private names'
    """
    path = test.removeprefix("tests/")
    if path.startswith(ROWS):
        from onnxfn import architectures

        families = {name: vars(architectures)[name].ROWS for name in FAMILIES}
        model = path.removeprefix(f"{ROWS}[")
        fits = [(len(row), name) for name in FAMILIES for row in families[name] if model.startswith(f"{row}-")]
        return f"rows: {max(fits)[1]}"
    return next((group for group, tests in SAMPLE.items() if path.startswith(tests)), "other")


def sampled(python, seconds, processes):
    """The tests of the sample, and the lines that pytest prints about them within some seconds."""
    start = time.monotonic()
    command = [str(python), "-m", "pytest", "-p", "no:cacheprovider", "-m", ""]
    command += [f"tests/{test}" for tests in SAMPLE.values() for test in tests]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "300"}
    shared = {"cwd": ROOT, "env": environment, "stderr": subprocess.STDOUT}
    listed = subprocess.run(
        [*command, "--collect-only", "-q"], check=False, stdout=subprocess.PIPE, text=True, **shared
    )
    tests = [line for line in listed.stdout.splitlines() if re.match(r"tests/\S+::", line)]
    with TemporaryFile("w+") as log:
        options = ["-v", "-rfE", "-n", str(processes)]
        with subprocess.Popen([*command, *options], stdout=log, **shared) as process:
            end_after(process, seconds - (time.monotonic() - start))
        log.seek(0)
        return tests, log.read().splitlines()


def end_after(process, seconds):
    """Wait for a process; after some seconds interrupt it, so that it says what failed, and then end it."""
    for wait, end in ((max(seconds, 1), lambda: process.send_signal(signal.SIGINT)), (30, process.terminate)):
        try:
            process.wait(wait)
        except subprocess.TimeoutExpired:
            end()


def results(lines):
    """{test: result} and {test: message of its error} of what pytest printed.

    >>> results(["[gw0] [ 50%] PASSED tests/a.py::test_b ", "[gw1] [100%] FAILED tests/a.py::test_c[x y] "])[0]
    {'tests/a.py::test_b': 'PASSED', 'tests/a.py::test_c[x y]': 'FAILED'}
    """
    found = [re.match(r"\[gw\d+\] \[ *\d+%\] ([A-Z]+) (.*?) *$", line) for line in lines]
    summary = [re.match(r"(?:FAILED|ERROR) (tests/.*?)(?: - (.*))?$", line) for line in lines]
    return {each[2]: each[1] for each in found if each}, {each[1]: each[2] or "" for each in summary if each}


def sample_table(tests, lines):
    found, messages = results(lines)
    found = dict.fromkeys(tests, "LEFT") | dict.fromkeys(messages, "ERROR") | found
    counts = {}
    for test, result in found.items():
        counts.setdefault(group_of(test), Counter())[result] += 1
    rows = [
        f"| {group} | {count['PASSED']} | {count['FAILED'] + count['ERROR']} | {count['SKIPPED']} | {count['LEFT']} |"
        for group, count in counts.items()
    ]
    failed = sorted(test for test, result in found.items() if result in ("FAILED", "ERROR"))
    told = [f"- `{test.removeprefix('tests/')}`: {messages.get(test, '')[:160]}".removesuffix(": ") for test in failed]
    head = ["| sample | passed | failed | skipped | not run |", "| --- | --- | --- | --- | --- |"]
    return [*head, *rows, "", *(["Failed:", "", *told, ""] if told else [])]


# The report


def report(package, version, arguments, folder):
    start = time.monotonic()
    commit = run("git", "rev-parse", "--short", "HEAD").strip()
    before = arguments.before or version_before(package, version)
    target = Path(arguments.environment or folder / "environment").absolute()
    try:
        python, refused = environment_with(package, version, target), []
    except RuntimeError as error:
        python, refused = None, [f"pip did not install it, so the sample did not run: `{error}`", ""]
    try:
        names = names_table(package, before, version, python, folder)
    except RuntimeError as error:
        names = [f"The names were not compared: `{error}`"]
    sample = []
    if python and not arguments.names_alone:
        versions = ", ".join(f"{each} {installed(python, each)}" for each in PACKAGES)
        left = 60 * arguments.minutes - (time.monotonic() - start)
        sample = [f"With {versions}.", "", *sample_table(*sampled(python, left, arguments.processes))]
    minutes = (time.monotonic() - start) / 60
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    title = [f"# {package} {version}", "", f"{today}, commit `{commit}`, {minutes:.1f} minutes.", ""]
    return [*title, *refused, *sample, *names]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("release", help="transformers==X, torch==X or onnxruntime==X")
    parser.add_argument("--before", help="the version to compare with; the highest release below, unless given")
    parser.add_argument("--environment", help="a folder that has such an environment, or that gets it")
    parser.add_argument("--minutes", type=float, default=25)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--names-alone", action="store_true", help="no sample")
    parser.add_argument("--record", action="store_true", help="write tests/tools/releases/PACKAGE-VERSION.md")
    arguments = parser.parse_args()
    package, _, version = arguments.release.partition("==")
    with TemporaryDirectory() as folder:
        text = "\n".join(report(package, version, arguments, Path(folder))).strip() + "\n"
    print(text)
    if arguments.record:
        RELEASES.mkdir(exist_ok=True)
        (RELEASES / f"{package}-{version}.md").write_text(text)


if __name__ == "__main__":
    main()

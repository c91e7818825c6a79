"""The environments of the clients: packages with their versions, and where and how they are installed.

python tests/clients/client_environments.py NAME ...    installs environments; all of them if none is named
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache as once
from pathlib import Path
from types import MappingProxyType

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "onnxfn" / "clients"
"""Read when the module is imported: tests have a cache folder of their own."""

ORT = "onnxruntime==1.31.1"
NODE, CHROMIUM = "node", "chromium"

PYTHON: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "genai": ("onnxruntime-genai==0.18.0", ORT, "numpy==2.4.6"),
        "optimum": (
            *("torch==2.13.0", "transformers==4.57.6", "optimum-onnx==0.1.0", "optimum==2.1.0"),
            *("sentence-transformers==5.7.0", ORT),
        ),
        "fastembed": ("fastembed==0.9.1", ORT),
        "onnx": ("onnx==1.23.2", "numpy==2.4.6"),
        "openvino": ("openvino==2026.4.1", "numpy==2.4.6"),
        "docs": ("zensical==0.0.73", "mkdocstrings-python==2.0.11", "mkdocstrings==1.0.8", "ruff==0.17.6"),
    }
)
"""From an environment to the packages that pip installs in it."""

JAVASCRIPT: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {"transformers.js": MappingProxyType({"@huggingface/transformers": "4.3.1"})}
)
"""From an environment to the packages that npm installs in it. No script of a package is run."""

UNREACHABLE = ("NewConnectionError", "NameResolutionError", "ProxyError", "ENOTFOUND", "ECONNREFUSED", "EAI_AGAIN")
"""What pip and npm print when they cannot reach their index."""

WITHOUT_NETWORK = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "ALL_PROXY": "http://127.0.0.1:9",
    "PYTHONPATH": "",
}
"""Environment variables of a client's process: no hub, no server, and no package of another environment."""


class NotInstalledError(Exception):
    """A client cannot be installed here; its message is the reason."""


def command(environment: str, driver: Path, cache: Path = CACHE) -> list[str]:
    """The command that runs a driver in an environment, which is installed if it is not there."""
    folder = installed_folder(environment, cache)
    if environment in PYTHON:
        return [str(folder / "bin" / "python"), str(driver)]
    if driver.suffix == ".mjs":
        return [required_program(NODE), str(driver), str(folder)]
    required_program(CHROMIUM)
    return [sys.executable, str(driver), str(folder)]


def required_program(name: str) -> str:
    if path := shutil.which(name):
        return path
    raise NotInstalledError(f"{name} is not on the PATH")


def installed_folder(environment: str, cache: Path = CACHE) -> Path:
    """The folder of an environment, installed if it is missing or has other versions; a failure is tried once."""
    if error := _failure(environment, cache):
        raise error
    return cache / environment


@once
def _failure(environment: str, cache: Path) -> Exception | None:
    try:
        _install_once(environment, cache)
    except (NotInstalledError, RuntimeError) as error:
        return error
    return None


def _install_once(environment: str, cache: Path) -> None:
    """Installs an environment if it is missing or has other versions; one process at a time."""
    folder = cache / environment
    pins = json.dumps(PYTHON.get(environment) or dict(JAVASCRIPT[environment]))
    folder.mkdir(parents=True, exist_ok=True)
    with (cache / f"{environment}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = folder / "pins.json"
        if not stamp.is_file() or stamp.read_text() != pins:
            _install(environment, folder)
            stamp.write_text(pins)


def versions(environment: str) -> str:
    """The versions of an environment in a line, such as `onnxruntime-genai 0.18.0, onnxruntime 1.31.1`."""
    if environment in PYTHON:
        return ", ".join(pin.replace("==", " ") for pin in PYTHON[environment])
    return ", ".join(f"{package} {version}" for package, version in JAVASCRIPT[environment].items())


def _install(environment: str, folder: Path) -> None:
    print(f"installing the client {environment} in {folder}", file=sys.stderr)
    if environment in PYTHON:
        _run([sys.executable, "-m", "venv", "--clear", str(folder)])
        _run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *PYTHON[environment]])
        return
    packages = {"private": True, "dependencies": dict(JAVASCRIPT[environment])}
    (folder / "package.json").write_text(json.dumps(packages))
    _run([required_program("npm"), "install", "--ignore-scripts", "--no-audit", "--no-fund"], folder)


def _run(words: list[str], folder: Path | None = None) -> None:
    """Runs a command that installs something. A registry that cannot be reached is a reason not to test."""
    variables = {**os.environ, "PYTHONPATH": ""}
    done = subprocess.run(words, cwd=folder, check=False, capture_output=True, text=True, env=variables)
    if done.returncode:
        printed = done.stdout + done.stderr
        if any(word in printed for word in UNREACHABLE):
            raise NotInstalledError(f"{Path(words[0]).name} reaches no package index")
        raise RuntimeError(f"{' '.join(words)}\n{printed[-3000:]}")


if __name__ == "__main__":
    for name in sys.argv[1:] or [*JAVASCRIPT, *PYTHON]:
        print(name, installed_folder(name))

"""What an export finds on this machine: versions, providers, cores, memory, disk, the cache of the hub."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from attrs import field

from onnxfn.specs.algebra.public_calls import NEWEST_TRIED, installed_version, newer_than_tried
from onnxfn.specs.converters import as_tuple
from onnxfn.specs.record import record
from onnxfn.specs.results.printing import file_size
from onnxfn.specs.version import VERSION

NEEDED = (*NEWEST_TRIED, "onnxscript", "onnx-ir", "numpy", "huggingface_hub", "safetensors", "tokenizers")
OPTIONAL = ("accelerate", "gguf", "peft", "timm", "diffusers", "sentence-transformers", "matplotlib")
"""The packages that every export imports, and those that some exports import."""

LEAST_BYTES = 2 * 10**9  # of memory, and on a disk, below which many exports fail


@record
class Finding:
    """One thing that `doctor` looked at.

    Attributes:
        name: What it is, such as `torch`, or `memory`.
        value: What is there.
        advice: What to do; empty if all is right.
    """

    name: str
    value: str
    advice: str = ""


@record
class Findings:
    """The result of `doctor`. It prints as one line for each thing, with what to do where something is off.

    Attributes:
        rows: What was looked at.

    >>> print(Findings([Finding("torch", "2.13.0"), Finding("memory", "1.0 GB free", "close other programs")]))
    torch   2.13.0
    memory  1.0 GB free; close other programs
    """

    rows: tuple[Finding, ...] = field(converter=as_tuple)

    @property
    def passed(self) -> bool:
        """Whether nothing is off."""
        return not any(row.advice for row in self.rows)

    def __str__(self) -> str:
        width = max((len(row.name) for row in self.rows), default=0)
        return "\n".join(f"{row.name:{width}}  {'; '.join(filter(None, (row.value, row.advice)))}" for row in self.rows)


def doctor() -> Findings:
    """What is on this machine that an export needs, and what to do where something is off.

    It imports no model and reads nothing from the network. Of a token of the hub it says only whether there is one.

    Returns:
        A row for onnxfn, Python, each package, the providers of ONNX Runtime, cores, memory, disks, and the hub.

    >>> [row.value for row in doctor().rows if row.name == "onnxfn"] == [VERSION]
    True
    """
    return Findings([*_packages(), *_machine()])


def _packages() -> Iterator[Finding]:
    yield Finding("onnxfn", VERSION)
    yield Finding("python", platform.python_version())
    for name in NEEDED:
        newest, installed = NEWEST_TRIED.get(name), installed_version(name)
        tried = f" (tried up to {newest})" if newest else ""
        advice = newer_than_tried({name: installed}) if installed and newest else ""
        yield Finding(name, f"{installed or 'not installed'}{tried}", advice if installed else f"pip install {name}")
    yield Finding("optional", ", ".join(f"{name} {installed_version(name) or '(not installed)'}" for name in OPTIONAL))
    import onnxruntime

    yield Finding("providers", ", ".join(onnxruntime.get_available_providers()))


def _machine() -> Iterator[Finding]:
    import psutil
    from huggingface_hub import constants, get_token

    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    yield Finding("cores", f"{cores}, load {load:.1f}", "other programs use them" if load > 2 * cores else "")
    free = psutil.virtual_memory().available
    small = "close other programs, or export with --check sections" if free < LEAST_BYTES else ""
    yield Finding("memory", f"{file_size(free).partition(',')[0]} free", small)
    for name, folder in (("disk", Path.cwd()), ("temporary", Path(tempfile.gettempdir()))):
        yield _disk(name, folder)
    yield _disk("hub cache", Path(constants.HF_HUB_CACHE))
    yield Finding("hub token", "there is one" if get_token() else "none (private models, push: hf auth login)")
    yield Finding("hub", "offline, by HF_HUB_OFFLINE" if constants.HF_HUB_OFFLINE else constants.ENDPOINT)


def _disk(name: str, folder: Path) -> Finding:
    existing = next(each for each in (folder, *folder.absolute().parents) if each.is_dir())
    free = shutil.disk_usage(existing).free
    advice = "" if free >= LEAST_BYTES and os.access(existing, os.W_OK) else "free space, or change the permissions"
    return Finding(name, f"{folder}, {file_size(free).partition(',')[0]} free", advice)

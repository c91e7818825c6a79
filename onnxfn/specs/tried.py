"""The newest versions of other packages that onnxfn was tried with, and what an error says of a newer one."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

NEWEST_TRIED: Mapping[str, str] = MappingProxyType(
    {"torch": "2.15.0", "transformers": "5.24.0", "onnx": "1.23.2", "onnxruntime": "1.32.0"}
)
"""Package -> the newest version that tests ran with."""


def newer_than_tried(installed: Mapping[str, str]) -> str:
    """A sentence about the packages that are newer than the newest that was tried; empty if none is.

    >>> newer_than_tried({"torch": "2.13.0", "transformers": "5.30.1"})
    'transformers 5.30.1 is installed; the newest that onnxfn was tried with is 5.24.0, which may be the cause'
    >>> newer_than_tried({"torch": "2.15.0+cpu"})
    ''
    """
    newer = {name: text for name, text in installed.items() if _numbers(text) > _numbers(NEWEST_TRIED[name])}
    if not newer:
        return ""
    are = f"{' and '.join(f'{name} {text}' for name, text in newer.items())} {'is' if len(newer) == 1 else 'are'}"
    tried = " and ".join(NEWEST_TRIED[name] for name in newer)
    return f"{are} installed; the newest that onnxfn was tried with is {tried}, which may be the cause"


@contextmanager
def newer_packages_noted() -> Iterator[None]:
    """Adds a note to an error if a package that is imported is newer than the newest that was tried."""
    try:
        yield
    except Exception as error:
        note = newer_than_tried(_imported())
        if note and note not in getattr(error, "__notes__", ()):
            error.add_note(note)
        raise


def _imported() -> dict[str, str]:
    """The versions of these packages that are imported: others have no part in an error."""
    from importlib.metadata import PackageNotFoundError, version  # not needed unless there is an error

    versions = {}
    for name in NEWEST_TRIED.keys() & sys.modules.keys():
        try:
            versions[name] = version(name)
        except PackageNotFoundError:  # onnxruntime is also distributed under other names
            continue
    return dict(sorted(versions.items()))


def _numbers(text: str) -> tuple[int, ...]:
    """The three numbers of a release.

    >>> _numbers("2.13.0+cpu"), _numbers("5.25")
    ((2, 13, 0), (5, 25, 0))
    """
    numbers = [int(number) for number in re.findall(r"\d+", text)[:3]]
    return tuple(numbers + [0] * (3 - len(numbers)))

"""File names that are read from a file: each must stay inside the folder to which it is relative."""

from __future__ import annotations

from pathlib import PurePosixPath, PureWindowsPath
from typing import Any


def is_inside(name: Any) -> bool:
    """Whether a relative name stays inside its folder, on every system.

    >>> [is_inside(name) for name in ("onnx/model.onnx", "../model.onnx", "/model.onnx", "C:model.onnx", "", 3)]
    [True, False, False, False, False, False]
    """
    if not isinstance(name, str):
        return False
    parts = {*PurePosixPath(name).parts, *PureWindowsPath(name).parts}
    absolute = PurePosixPath(name).is_absolute() or bool(PureWindowsPath(name).anchor)
    return bool(parts) and "\0" not in name and not absolute and ".." not in parts

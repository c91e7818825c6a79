"""While a checkpoint is loaded: why it fails, as the damaged file or the error of transformers in one line; ticks."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from pickle import UnpicklingError
from types import MappingProxyType
from typing import Any

from onnxfn.specs.errors import LoadFailed, ModelNotFound, errors_as, first_line, os_error_text, root_cause
from onnxfn.specs.stored.reports import Tick, no_tick
from onnxfn.weights.checkpoint_links import read_header

LFS_POINTER = b"version https://git-lfs.github.com/spec/"
"""The first bytes of the small text file that git stores in place of a file of git-lfs."""

CONFIG = "config.json"
INDEX = "*.index.json"


def load_errors(name: str, step: str) -> AbstractContextManager[None]:
    """Raises LoadFailed for any error inside but MemoryError; it names the step, and the damaged file or the error."""

    def failed(error: Exception) -> LoadFailed:
        fault = checkpoint_fault(Path(name))
        return LoadFailed(f"{step}: {_reason(error)}" if fault is None else f"{name} cannot be loaded: {fault}")

    return errors_as(failed)


def checkpoint_fault(folder: Path) -> str | None:
    """The fault of the first damaged file in a checkpoint's folder; None without such a file or such a folder."""
    if not folder.is_dir():
        return None
    for pattern, content_fault in CONTENT_FAULTS.items():
        for file in sorted(path for path in folder.iterdir() if path.match(pattern)):
            fault = _file_fault(file) or content_fault(file)
            if fault is not None:
                return f"{file.name} {fault}"
    return None


def _reason(error: Exception) -> str:
    """The type and the message of an error of transformers, and advice for the user."""
    if isinstance(error, OSError) and error.errno is not None:
        return os_error_text(error)
    if isinstance(root_cause(error), UnpicklingError):
        return (
            "the weights are a pickle that is damaged or would run code, so it is refused; convert them to safetensors"
        )
    advice = "; install the package, or change config.json" if isinstance(error, ImportError) else ""
    return f"{type(error).__name__}: {first_line(error)}{advice}"


def _file_fault(file: Path) -> str | None:
    """The fault of a file of any format: a link to nothing, a folder, not readable, a pointer of git-lfs."""
    try:
        if not file.exists():
            return f"is a link to {file.readlink()}, which does not exist"
        if not file.is_file():
            return "is not a file"
        with file.open("rb") as opened:
            start = opened.read(len(LFS_POINTER))
    except OSError as error:
        return f"cannot be read: {os_error_text(error, file)}"
    if start == LFS_POINTER:
        return f"is a git-lfs pointer, {file.stat().st_size} bytes, and not the file itself: run `git lfs pull`"
    return "is empty" if not start else None


def _json_fault(file: Path) -> str | None:
    try:
        content = json.loads(file.read_bytes())
    except RecursionError:
        return "is JSON that is nested too deeply"
    except ValueError as error:  # also an error of UTF-8
        return f"is not JSON: {first_line(error)}"
    return None if isinstance(content, dict) else f"holds a {type(content).__name__}, not an object"


def _index_fault(file: Path) -> str | None:
    """The fault of the index of weights in several files: it is damaged, or names a missing file."""
    fault = _json_fault(file)
    if fault is not None:
        return fault
    names: Any = json.loads(file.read_bytes()).get("weight_map")
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        return "has no weight_map from names of weights to names of files"
    missing = sorted({name for name in names.values() if not (file.parent / name).exists()})
    return f"names files that do not exist: {', '.join(missing[:4])}; download them" if missing else None


def _safetensors_fault(file: Path) -> str | None:
    """The fault of a safetensors file: it has no header, or its size does not match the header."""
    try:
        header, data_start = read_header(file)
        ends = [tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__"]
        expected = data_start + max(ends, default=0)
    except ModelNotFound as error:
        return str(error).removeprefix(f"{file} ")
    except (TypeError, KeyError, IndexError):
        return "has a header of safetensors that does not say where its tensors are"
    size = file.stat().st_size
    if size < expected:
        return f"is truncated: it has {size:,} bytes, and its header needs {expected:,}; download it again"
    return f"has {size - expected:,} bytes after its last tensor; download it again" if size > expected else None


CONTENT_FAULTS: Mapping[str, Callable[[Path], str | None]] = MappingProxyType(
    {
        CONFIG: _json_fault,
        "generation_config.json": _json_fault,
        INDEX: _index_fault,
        "*.safetensors": _safetensors_fault,
        "*.bin": lambda _: None,
    }
)
"""Pattern of files of a checkpoint -> the function that returns the fault of the content, or None."""


@contextmanager
def weights_ticked(tick: Tick = no_tick) -> Iterator[None]:
    """Calls `tick` with the number of weights so far and in all while transformers loads a model."""
    from transformers.utils import logging

    def hook(factory: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        bar = factory(*args, **options)
        return _ticked([*args[0]], tick) if options.get("desc") == "Loading weights" and args else bar

    with no_bars():
        before = logging.set_tqdm_hook(hook)
        try:
            yield
        finally:
            logging.set_tqdm_hook(before)


def _ticked(weights: Sequence[Any], tick: Tick) -> Iterator[Any]:
    for number, weight in enumerate(weights, start=1):
        yield weight
        tick(number, len(weights))


@contextmanager
def no_bars() -> Iterator[None]:
    """Switches off the progress bars of transformers and of the client of the hub, which are on the error stream."""
    from transformers.utils import logging

    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            logging.enable_progress_bar()

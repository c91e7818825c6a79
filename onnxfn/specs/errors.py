"""Exceptions, whose messages are one line: the request, the place, what is known, the closest, and advice."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from attrs import frozen

NO_MEMORY = ("allocate memory", "std::bad_alloc")
"""What a RuntimeError of torch or ONNX Runtime says if there is not enough memory."""

SHOWN_CHARACTERS = 60
"""Characters of a value that a message or a summary shows."""


class OnnxfnError(Exception):
    """The base of all errors that onnxfn raises on purpose. The message is one line that can be shown to a user."""


@frozen(repr=False)
class LateText:
    """A message that is written when it is read: an error that is expected costs no search for similar names."""

    written: Callable[[], str]

    def __str__(self) -> str:
        return self.written()

    def __repr__(self) -> str:
        return repr(self.written())


def late(written: Callable[..., str], *arguments: Any) -> LateText:
    """The message that a function makes of arguments."""
    return LateText(partial(written, *arguments))


class UnknownName(OnnxfnError, LookupError):
    """A name does not exist: of a task, a model type, an input, a size, a getter, a function.

    >>> from onnxfn.specs.axes import axis_map, shape
    >>> shape(axis_map("seq_len"), {"sequence_length": 8})
    Traceback (most recent call last):
    onnxfn.specs.errors.UnknownName: no size for 'seq_len' in axis 'seq_len'; known: sequence_length; did you mean \
'sequence_length'?
    """


class MissingValue(OnnxfnError, LookupError):
    """The configuration does not have a value that the spec reads.

    >>> from onnxfn.specs.algebra.config_values import read_config
    >>> from onnxfn.specs.records import Normalizer
    >>> read_config(Normalizer(), {"hidden_size": 64}, "hiden_size")
    Traceback (most recent call last):
    onnxfn.specs.errors.MissingValue: the configuration has no 'hiden_size'; it has: hidden_size; did you mean \
'hidden_size'?
    """


class InvalidSpec(OnnxfnError, ValueError):
    """A spec, or the arguments of a function that takes one, contradict themselves or the model.

    >>> from onnxfn.specs.axes import axis_map
    >>> axis_map("batch_size width/2")
    Traceback (most recent call last):
    onnxfn.specs.errors.InvalidSpec: axis 'width/2' has an operator other than + - * //
    """


class WrongType(InvalidSpec):
    """A value does not have the type of the field of a record.

    >>> from onnxfn.specs.records import Read
    >>> Read("num_layers", 2)
    Traceback (most recent call last):
    onnxfn.specs.errors.WrongType: source of Read is 2, of the type int; it must be str or Getter
    """


class CaptureFailed(OnnxfnError, RuntimeError):
    """The model could not be traced, or its graph does not have the planned inputs, outputs and axes."""


class FixedSizes(CaptureFailed):
    """A trace has one size for an axis that is planned to move. The sizes of the sample may be the cause."""


class PatchFailed(OnnxfnError, TypeError):
    """A patch does not take an argument of the function that it replaces, or uses one as another type."""


class LayersDiffer(OnnxfnError, RuntimeError):
    """Layers that should be equal differ, so one trace cannot stand for them. The message says where they differ."""


class OutputExists(OnnxfnError, FileExistsError):
    """The file or folder to write already exists. `overwrite=True` replaces it."""


class ModelNotFound(OnnxfnError, FileNotFoundError):
    """No model, checkpoint or ONNX file was found under the given name or path."""


class LoadFailed(OnnxfnError, RuntimeError):
    """A checkpoint exists and cannot be loaded: a file is damaged, or its weights are not those of its configuration.

    `__cause__` is the error of the library that loads it, if it raised one.
    """


class WriteFailed(OnnxfnError, OSError):
    """The operating system refuses to read or write a file of an export: no space, no permission, a name too long.

    `__cause__` is the error of the operating system, with its `errno`.
    """


class TimedOut(OnnxfnError, TimeoutError):
    """An export took longer than its `timeout`. It was stopped, and nothing was written."""


def root_cause(error: BaseException) -> BaseException:
    """The error at the start of the chain of causes. The chain ends at an error of onnxfn: its message says enough."""
    while error.__cause__ is not None and not isinstance(error, OnnxfnError):
        error = error.__cause__
    return error


def raise_no_memory(error: BaseException) -> None:
    """Raises MemoryError if an error says that memory is short: such a failure says nothing about a model or a file."""
    if isinstance(error, MemoryError):
        raise error
    if type(error).__name__ == "OutOfMemoryError" or any(text in str(error) for text in NO_MEMORY):
        raise MemoryError(first_line(error)) from error
    if error.__cause__ is not None:
        raise_no_memory(error.__cause__)


@contextmanager
def errors_as(raised: Callable[[Any], OnnxfnError], caught: type[Exception] = Exception) -> Iterator[None]:
    """Raises what a function makes of an error inside; errors of onnxfn are not changed, and MemoryError passes."""
    try:
        yield
    except OnnxfnError:
        raise
    except caught as error:
        raise_no_memory(error)
        raise raised(error) from error


def first_line(error: BaseException) -> str:
    """The first line of an error's message that is not blank; the name of the error's type when there is none.

    A line that ends in a colon is joined with the next line.
    """
    line, *others = [*filter(None, (line.strip() for line in str(error).splitlines())), ""]
    return f"{line} {others[0]}".strip() if line.endswith(":") else line or type(error).__name__


def beginning(text: str) -> str:
    """A text, cut after 60 characters."""
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."


def shortened(value: object) -> str:
    """A value as Python writes it in ASCII, cut after 60 characters."""
    return beginning(ascii(value).replace("\n", " "))  # the text of a module has lines


def closest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the known name that is most similar; an empty text when none is similar."""
    matches = get_close_matches(str(name), list(known), n=1, cutoff=0.5)
    return f"; did you mean {matches[0]!r}?" if matches else ""


def listed(names: Iterable[str], *, most: int = 24) -> str:
    """The names, separated by commas; a longer list than `most` is cut."""
    all_names = list(names)
    if len(all_names) <= most:
        return ", ".join(all_names) or "none"
    return f"{', '.join(all_names[:most])}, ... ({len(all_names)} in all)"


def unknown(kind: str, name: str, known: Iterable[str], *, of: str = "") -> UnknownName:
    """The error for a name that does not exist. `kind`: what it stands for. `of`: who has the known names."""
    known_names = list(known)
    owner = f" for {of}" if of else ""
    return UnknownName(f"no {kind} {name!r}{owner}; known: {listed(known_names)}{closest(name, known_names)}")


def refuse_unknown(kind: str, name: str, known: Iterable[str], *, of: str = "") -> None:
    """Raises UnknownName for a name that does not exist: see `unknown`."""
    if name not in known:
        raise unknown(kind, name, known, of=of)


NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
"""The errors whose message has the number of free bytes."""

ADVICE: Mapping[int, str] = MappingProxyType(
    {
        **dict.fromkeys(NO_SPACE, "free space, or choose a path on another disk"),
        errno.EFBIG: "the system limits the size of a file (ulimit -f); raise the limit, or choose another file system",
        **dict.fromkeys((errno.EACCES, errno.EPERM), "change the permissions, or choose another path"),
        errno.EROFS: "choose a path on another file system",
        errno.ENAMETOOLONG: "choose a shorter name",
        errno.ENOTDIR: "a part of the path is a file; choose a path below a folder",
        errno.EEXIST: "choose another path",
        errno.EISDIR: "choose another path",
        errno.ELOOP: "the path is a link to itself; choose another path",
        errno.EMFILE: "the system limits the number of open files (ulimit -n); raise the limit",
        errno.EXDEV: "choose a path on one file system",
        errno.EIO: "the disk cannot be read or written",
    }
)
"""Number of an error of the operating system -> advice for the user."""


def is_possible_path(path: str | os.PathLike[str]) -> bool:
    """Whether a file of this path can exist: no path has a null character, or half of a surrogate pair."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def write_errors(path: Path, needed_bytes: Callable[[], int] = int) -> AbstractContextManager[None]:
    """Raises WriteFailed for an error of the operating system inside, while files are written to a path."""
    text = partial(os_error_text, path=path, needed_bytes=needed_bytes)
    return errors_as(lambda error: WriteFailed(f"cannot write {path}: {text(error)}"), OSError)


def os_error_text(error: OSError, path: Path | None = None, needed_bytes: Callable[[], int] = int) -> str:
    """The failure, the path, and advice. `path` is the path of the command; the error may be about another path."""
    if error.errno == errno.ENOENT and not _has_current_folder():
        return "the current folder does not exist any more; change to another folder"
    reason = str(error.strerror or error or type(error).__name__)
    targets = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
    clauses = [": ".join((reason[:1].lower() + reason[1:], *(name for name in targets[-1:] if name != str(path))))]
    if error.errno in NO_SPACE and path is not None:
        existing = next((folder for folder in (path, *path.parents) if folder.is_dir()), Path())
        weights = f"the weights take up to {size:,} bytes, " if (size := needed_bytes()) else ""
        clauses.append(f"{weights}{shutil.disk_usage(existing).free:,} bytes are free")
    return "; ".join(filter(None, (*clauses, ADVICE.get(error.errno or 0, ""))))


def _has_current_folder() -> bool:
    try:
        return bool(Path.cwd())
    except OSError:
        return False


def error_line(error: Exception) -> str:
    """The message of any error in one line, for the command line and for the results of many exports."""
    match error:
        case OnnxfnError():
            line = str(error)
        case OSError():
            line = os_error_text(error)
        case MemoryError():
            line = f"not enough memory: {first_line(error)}; use a machine with more memory, or smaller sizes"
        case _:
            cause = root_cause(error)
            line = (
                f"unexpected error: {type(cause).__name__}: {first_line(cause)}; "
                "please report it as a fault of onnxfn, with its traceback"
            )
    return " ".join(line.splitlines())

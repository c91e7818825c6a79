"""The exceptions of onnxfn, and the texts that their messages share.

A message is one line. It says what was asked, where, what is known, the closest known name, and what to do.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


SHOWN_CHARACTERS = 60
"""Characters of a value that a message shows."""


class OnnxfnError(Exception):
    """The base of all errors that onnxfn raises on purpose. The message is one line that can be shown to a user.

    >>> from onnxfn.specs.axes import axis_map
    >>> try:
    ...     axis_map("width/2")
    ... except OnnxfnError as error:
    ...     print(error)
    axis 'width/2' has an operator other than + - * //
    """


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

    Its argument is the message, or a function that returns it: planning reads many values that may be missing, and the
    search for the closest name takes longer than all the rest.

    >>> from onnxfn.specs.algebra.config_values import read_config
    >>> from onnxfn.specs.records import Normalizer
    >>> read_config(Normalizer(), {"hidden_size": 64}, "hiden_size")
    Traceback (most recent call last):
    onnxfn.specs.errors.MissingValue: the configuration has no 'hiden_size'; it has: hidden_size; did you mean \
'hidden_size'?
    """

    def __str__(self) -> str:
        message = self.args[0] if self.args else ""
        return str(message()) if callable(message) else str(message)

    def __reduce__(self) -> tuple[type[MissingValue], tuple[str]]:
        return MissingValue, (str(self),)


class InvalidSpec(OnnxfnError, ValueError):
    """A spec, or the arguments of a function that takes one, contradict themselves or the model.

    >>> from onnxfn.specs.axes import axis_map
    >>> axis_map("batch_size width/2")
    Traceback (most recent call last):
    onnxfn.specs.errors.InvalidSpec: axis 'width/2' has an operator other than + - * //
    """


class WrongType(InvalidSpec):
    """A value does not have the type of the field of a record.

    >>> from onnxfn.specs.records import DummySize
    >>> DummySize("batch_size", "two")
    Traceback (most recent call last):
    onnxfn.specs.errors.WrongType: value of DummySize is 'two', of the type str; it must be int or Getter
    """


class CaptureFailed(OnnxfnError, RuntimeError):
    """The model could not be traced, or its graph does not have the planned inputs, outputs and axes."""


class PatchFailed(OnnxfnError, TypeError):
    """A patch does not take an argument of the function that it replaces, or uses one as another type.

    The fault lies in the patch. It is no refusal of the model, whose own TypeErrors say that inputs are not its own.
    """


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


def first_line(error: BaseException) -> str:
    """The first line of an error's message that is not blank; the name of the error's type when there is none.

    A line that ends in a colon is joined with the next one, which says the rest.

    >>> first_line(ValueError("no such axis" + chr(10) + "and more"))
    'no such axis'
    >>> first_line(ValueError("conflicts:" + chr(10) + "- axis 0 is 1"))
    'conflicts: - axis 0 is 1'
    """
    line, *others = [*filter(None, (line.strip() for line in str(error).splitlines())), ""]
    return f"{line} {others[0]}".strip() if line.endswith(":") else line or type(error).__name__


def shortened(value: object) -> str:
    """A value as Python writes it in ASCII, without what follows the first 60 characters.

    >>> shortened(["batch_size"]), len(shortened("a" * 100))
    ("['batch_size']", 63)
    """
    text = ascii(value).replace("\n", " ")  # the text of a module has lines
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."


def closest(name: str, known: Iterable[str], *, similarity: float = 0.5) -> str:
    """`; did you mean 'x'?` for the known name that is most similar; an empty text when none is similar.

    >>> closest("seq_length", ["batch_size", "sequence_length"])
    "; did you mean 'sequence_length'?"
    """
    matches = get_close_matches(str(name), list(known), n=1, cutoff=similarity)
    return f"; did you mean {matches[0]!r}?" if matches else ""


def listed(names: Iterable[str], *, most: int = 24) -> str:
    """The names, separated by commas; a longer list than `most` is cut.

    >>> listed(["a", "b", "c"], most=2)
    'a, b, ... (3 in all)'
    """
    all_names = list(names)
    if len(all_names) <= most:
        return ", ".join(all_names) or "none"
    return f"{', '.join(all_names[:most])}, ... ({len(all_names)} in all)"


def unknown(kind: str, name: str, known: Iterable[str], *, of: str = "") -> UnknownName:
    """The error for a name that does not exist.

    Args:
        kind: What the name stands for, such as `task`.
        name: The name that was asked for.
        known: The names that exist.
        of: The spec or the model that they belong to, if any.

    >>> str(unknown("task", "fil-mask", ["fill-mask", "feature-extraction"], of="bert"))
    "no task 'fil-mask' for bert; known: fill-mask, feature-extraction; did you mean 'fill-mask'?"
    """
    known_names = list(known)
    owner = f" for {of}" if of else ""
    return UnknownName(f"no {kind} {name!r}{owner}; known: {listed(known_names)}{closest(name, known_names)}")

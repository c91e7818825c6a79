"""What goes wrong, said in one line: what was asked, where, what is known, the closest, what to do."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class OnnxfnError(Exception):
    """The root of everything onnxfn refuses; its text is one line that can be shown to a user as it is."""


class UnknownName(OnnxfnError, LookupError):
    """A name that is not there: a task, a model type, an input, a size."""


class MissingValue(OnnxfnError, LookupError):
    """A configuration does not hold what a spec reads from it."""


class InvalidSpec(OnnxfnError, ValueError):
    """A spec, or a request made of one, contradicts itself or the model."""


class CaptureFailed(OnnxfnError, RuntimeError):
    """The model could not be turned into a graph with the planned inputs, outputs and axes."""


class LayersDiffer(OnnxfnError, RuntimeError):
    """Layers that were to be the same are not; says where they differ."""


class CheckFailed(OnnxfnError, RuntimeError):
    """The ONNX files do not compute what PyTorch computes, or they could not be compared.

    Attributes:
        report: The `Report` with the figures of each output, if all cases were compared and an output differs. None if
            the comparison stopped: ONNX Runtime cannot load or run a file, or an output of PyTorch does not have the
            axes that the plan gives it.
    """

    report: object = None


class OutputExists(OnnxfnError, FileExistsError):
    """The place to write to is taken."""


class ModelNotFound(OnnxfnError, FileNotFoundError):
    """There is no model where one was looked for."""


def root_cause(error: BaseException) -> BaseException:
    """The error at the start of the chain of causes: `error` itself when it has none."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def first_line(error: BaseException) -> str:
    """The first line of an error's message that is not blank; the name of the error's type when there is none.

    >>> first_line(ValueError("no such axis" + chr(10) + "and more"))
    'no such axis'
    """
    lines = (line.strip() for line in str(error).splitlines())
    return next(filter(None, lines), type(error).__name__)


def closest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or nothing when no known name is near.

    >>> closest("seq_length", ["batch_size", "sequence_length"])
    "; did you mean 'sequence_length'?"
    """
    near = get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""


def listed(names: Iterable[str], *, most: int = 24) -> str:
    """Names in one line, cut after `most`.

    >>> listed(["a", "b", "c"], most=2)
    'a, b, ... (3 in all)'
    """
    every = list(names)
    if len(every) <= most:
        return ", ".join(every) or "none"
    return f"{', '.join(every[:most])}, ... ({len(every)} in all)"


def unknown(kind: str, name: str, known: Iterable[str], *, of: str = "") -> UnknownName:
    """The error for a name that is not among the known ones.

    >>> str(unknown("task", "fil-mask", ["fill-mask", "feature-extraction"], of="bert"))
    "no task 'fil-mask' for bert; known: fill-mask, feature-extraction; did you mean 'fill-mask'?"
    """
    every = list(known)
    owner = f" for {of}" if of else ""
    return UnknownName(f"no {kind} {name!r}{owner}; known: {listed(every)}{closest(name, every)}")

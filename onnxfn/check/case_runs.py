"""Runs ONNX Runtime in the cases of a check, while PyTorch computes the next ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from onnxfn.check.references import OutputArrays, Reference
from onnxfn.check.sessions import runtime_message
from onnxfn.specs.planned import Part
from onnxfn.specs.reports import CheckFailed


def while_loaded(session: Future[Any], expected: Iterable[Reference]) -> Iterator[Reference]:
    """The references. Raises, before the next one is computed, what ended the loading of the file."""
    for reference in expected:
        if session.done():
            session.result()
        yield reference


def with_outputs(
    session_of_file: Callable[[], Any],
    session_of: Callable[[bytes], Any],
    run_options: Any,
    file: Path,
    part: Part,
    reference: Reference,
) -> tuple[Reference, OutputArrays]:
    """A reference, and ONNX Runtime's outputs in its case; none if it cannot run the file without some layers.

    `session_of` returns a session of the bytes of a file without them.
    """
    names = [output.name for output in part.spec.outputs]
    if reference.shorter is not None:
        with suppress(Exception):  # the whole file runs in this case, too
            session, feeds = session_of(reference.shorter.content), {**reference.inputs, **reference.shorter.fed}
            return reference, tuple(session.run(names, feeds, run_options))
        return reference, ()
    session = session_of_file()
    try:
        return reference, tuple(session.run(names, dict(reference.inputs), run_options))
    except Exception as error:
        message = f"ONNX Runtime cannot run {file.name} at {reference.case}: {runtime_message(error)}"
        raise CheckFailed(message) from error

"""Runs ONNX Runtime in the cases of a check, while PyTorch computes the next ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from onnxfn.check.cases.references import OutputArrays, Reference
from onnxfn.run.sessions import runtime_message
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.stored.reports import CheckFailed

RETURNS_MEMORY = "memory.enable_memory_arena_shrinkage"
"""ONNX Runtime's entry for a run that returns the memory of an arena at its end."""


def while_loaded(session: Future[Any], expected: Iterable[Reference]) -> Iterator[Reference]:
    """The references. Raises, before the next one is computed, what ended the loading of the file."""
    for reference in expected:
        if session.done():
            session.result()
        yield reference


def with_outputs(
    session_of_file: Callable[[], Any], run_options: Any, file: Path, part: Part, reference: Reference
) -> tuple[Reference, OutputArrays]:
    """A reference, and ONNX Runtime's outputs in its case. CheckFailed if it cannot run the file."""
    session, names = session_of_file(), [output.name for output in part.spec.outputs]
    try:
        return reference, _run(session, names, reference.inputs, run_options)
    except Exception as error:
        message = f"ONNX Runtime cannot run {file.name} at {reference.case}: {runtime_message(error)}"
        raise CheckFailed(message) from error


def _run(session: Any, names: Sequence[str], feeds: Mapping[str, Array], run_options: Any) -> OutputArrays:
    """ONNX Runtime's outputs. It returns the memory of the run: the next case has other sizes."""
    if session.get_session_options().enable_cpu_mem_arena and not _has_entry(run_options, RETURNS_MEMORY):
        run_options.add_run_config_entry(RETURNS_MEMORY, "cpu:0")
    return tuple(session.run([*names], dict(feeds), run_options))


def _has_entry(run_options: Any, name: str) -> bool:
    """Whether `RunOptions` have an entry of this name; ONNX Runtime logs a warning if it is added again."""
    with suppress(Exception):  # the way in which ONNX Runtime says no
        return bool(run_options.get_run_config_entry(name))
    return False

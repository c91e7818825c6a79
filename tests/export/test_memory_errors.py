"""What fails for want of memory raises MemoryError: it says nothing about the model, the file or the spec."""

from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
import torch

import onnxfn
from onnxfn.check.cases.references import Reference, with_outputs
from onnxfn.check.verdict.verdict import exact_outputs
from onnxfn.run import sessions
from onnxfn.run.prompts import run_errors
from onnxfn.specs.errors import CaptureFailed, raise_no_memory

NO_MEMORY = (
    MemoryError("Unable to allocate 8 GiB"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:121] . DefaultCPUAllocator: can't allocate memory"),
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 8 GiB"),
    RuntimeError("[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : std::bad_alloc"),
)


class Watched(torch.nn.Module):
    def __init__(self, watch):
        super().__init__()
        self.linear, self.watch = torch.nn.Linear(4, 2), watch

    def forward(self, x):
        output = self.linear(x)
        self.watch(output)
        return output


@pytest.mark.parametrize("error", NO_MEMORY, ids=lambda error: type(error).__name__)
def test_a_trace_without_enough_memory_is_no_model_that_cannot_be_traced(error):
    def fails(_):
        if torch.compiler.is_exporting():
            raise error

    model = Watched(fails).eval()
    with pytest.raises(MemoryError):
        onnxfn.export(onnxfn.derived(model, sample={"x": torch.randn(3, 4)}), model)


@pytest.mark.parametrize("error", NO_MEMORY, ids=lambda error: type(error).__name__)
def test_float64_without_enough_memory_gives_no_wider_bound(error):
    def fails(output):
        if output.dtype == torch.float64:
            raise error

    model = Watched(fails).eval()
    part = onnxfn.plan(onnxfn.derived(model, sample={"x": torch.randn(3, 4)}), {}).parts[0]
    with pytest.raises(MemoryError):
        exact_outputs(model, "float32")(part, {"x": np.ones((3, 4), np.float32)})


@pytest.mark.parametrize("error", NO_MEMORY, ids=lambda error: type(error).__name__)
def test_onnx_runtime_without_enough_memory_is_no_wrong_file(error):
    part = SimpleNamespace(spec=SimpleNamespace(outputs=()))
    reference = Reference("a case", {}, ())
    session = SimpleNamespace(run=Mock(side_effect=error))
    with pytest.raises(MemoryError):
        with_outputs(lambda: session, None, SimpleNamespace(name="model.onnx"), part, reference)
    with pytest.raises(MemoryError), run_errors(torch.zeros(1, 1, dtype=torch.long).numpy()):
        raise error


def limited(numbers, session):
    """A session that has memory for inputs of this many numbers."""

    def run(names, feeds, *options):
        if any(array.size > numbers for array in feeds.values()):
            raise NO_MEMORY[1]
        return session.run(names, feeds, *options)

    return Mock(wraps=session, run=run)


@pytest.mark.parametrize("dtype", ["float32", "q8"])
def test_other_sizes_that_need_more_memory_than_there_is_are_named(tmp_path, monkeypatch, dtype):
    limit, opened = 10**6, sessions.open_session
    monkeypatch.setattr(sessions, "open_session", lambda *given, **named: limited(limit, opened(*given, **named)))
    model, sample = torch.nn.Linear(64, 64).eval(), torch.randn(2, 9, 64)
    spec = onnxfn.derived(model, sample=sample, axes={"input": "batch_size length 64"})
    assert not onnxfn.export(spec, model, tmp_path / "enough", dtypes=(dtype,)).report.unchecked
    limit = 3000
    [unchecked] = onnxfn.export(spec, model, tmp_path / "less", dtypes=(dtype,)).report.unchecked
    assert unchecked.endswith("larger sizes (batch_size=2, length=24), which needs more memory than there is")
    limit = 0
    with pytest.raises(MemoryError):
        onnxfn.export(spec, model, tmp_path / "none", dtypes=(dtype,))


def test_an_error_that_another_one_caused_is_seen():
    cause = CaptureFailed("cannot run")
    cause.__cause__ = NO_MEMORY[0]
    with pytest.raises(MemoryError, match="8 GiB"):
        raise_no_memory(cause)


def test_another_error_is_no_want_of_memory():
    raise_no_memory(ValueError("out of memory slots"))

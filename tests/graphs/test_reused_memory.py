"""The memory of large tensors in runs of PyTorch."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import numpy as np
import pytest

from onnxfn.graphs.capture.reused_memory import reused_memory

PROGRAM = """
import os, resource
import numpy as np
import torch
from onnxfn.graphs.capture.reused_memory import reused_memory

torch.set_num_threads(1)
PAGE = os.sysconf("SC_PAGE_SIZE")

def cleared():
    "The bytes that the system clears for ten tensors of 128 MiB, one after the other."
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.ones(32 << 20)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) * PAGE >> 20

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * PAGE >> 20

torch.ones(8 << 20)
before, outside = resident(), cleared()
with reused_memory({"pixel_values": np.zeros(1_000_000, np.float32)}):
    inside = cleared()
print(outside, inside, resident() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc returns the memory, and the test reads /proc")
def test_large_tensors_use_the_memory_of_freed_ones() -> None:
    """Ten tensors of 128 MiB take 128 MiB and not 1,280, and all of it is returned at the end."""
    result = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    outside, inside, left = map(int, result.stdout.split())
    assert outside == pytest.approx(1280, rel=0.1)
    assert inside < 300
    assert left < 64


def test_small_inputs_leave_the_allocator_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The C library is not asked for anything where the inputs are small."""

    def no_library(_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(ctypes, "CDLL", no_library)
    with reused_memory({"input_ids": np.zeros(100, np.int64)}):
        pass

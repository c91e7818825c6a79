"""A function in a process of its own: a crash or a long run ends this process alone."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

PRELOADED = ("torch", "torch.onnx", "transformers.exporters.exporter_onnx", "onnxfn.export.pipeline")
"""What the server of processes imports once, so that a process starts in a fraction of a second."""


class ProcessDied(Exception):
    """The process ended without a result, or was ended because it took too long."""


def in_own_process(seconds: float, function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns that runs in a process of its own for at most so many seconds.

    Raises:
        ProcessDied: there is no result.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(sender, function, *arguments))
    process.start()
    sender.close()
    try:
        if not receiver.poll(seconds):
            raise ProcessDied(f"no result after {seconds:.0f} s")
        return receiver.recv()
    except EOFError:
        process.join()
        raise ProcessDied(f"the process ended with {process.exitcode}") from None
    finally:
        process.kill()
        process.join()


def _send(sender: Connection, function: Callable[..., Any], *arguments: Any) -> None:
    sender.send(function(*arguments))

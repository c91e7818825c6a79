"""The command line as a program: `python -m onnxfn`, and the command `onnxfn`."""

import gc
import os

from onnxfn.export.cli import app
from onnxfn.export.deferred_imports import defer_imports

COLLECTION_THRESHOLD = 1_000_000
"""Number of new objects after which Python collects garbage. Most objects of an export are modules, which stay."""


def main() -> None:
    """Runs the command line."""
    gc.set_threshold(COLLECTION_THRESHOLD)
    defer_imports()
    # Waiting threads of PyTorch shall not spin: that takes 20 times as long while another program uses the cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        app()
    finally:
        # The process ends here: a last collection of all objects would take seconds and free nothing of use.
        gc.freeze()


if __name__ == "__main__":
    main()

"""`python -m onnxfn` and the command `onnxfn`."""

import gc
import os

from onnxfn.export.cli import app

SELDOM = 1_000_000
"""New objects between two collections of garbage: what is imported for an export is made once and stays."""


def main() -> None:
    """Run the command line."""
    gc.set_threshold(SELDOM)
    # Threads of PyTorch that wait for each other by spinning take twenty times as long beside another busy program.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        app()
    finally:
        # The process ends here, so nothing of what it made is looked through for garbage: that would take seconds.
        gc.freeze()


if __name__ == "__main__":
    main()

"""The command line as a program: `python -m onnxfn`, and the command `onnxfn`."""

import os

from onnxfn.export.cli.commands import app


def main() -> None:
    """Runs the command line."""
    # Waiting threads of PyTorch must not spin: that takes 20 times as long while another program uses the cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    app()


if __name__ == "__main__":
    main()

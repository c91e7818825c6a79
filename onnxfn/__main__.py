"""`python -m onnxfn` and the command `onnxfn`."""

import gc

from onnxfn.cli import app

SELDOM = 200_000
"""New objects between two collections of garbage: what is imported for an export is made once and stays."""


def main() -> None:
    """Run the command line."""
    gc.set_threshold(SELDOM)
    app()


if __name__ == "__main__":
    main()

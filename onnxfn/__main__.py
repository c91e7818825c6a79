"""`python -m onnxfn` and the command `onnxfn`."""

from onnxfn.cli import app


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()

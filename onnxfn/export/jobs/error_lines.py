"""Errors in one line: for the command line, and for the results of many exports."""

from onnxfn.specs.errors import OnnxfnError, first_line, os_error_text, root_cause


def error_line(error: Exception) -> str:
    """The message of an error in one line. An error that nobody expected asks for a report."""
    match error:
        case OnnxfnError():
            line = str(error)
        case OSError():
            line = os_error_text(error)
        case MemoryError():
            line = f"not enough memory: {first_line(error)}; use a machine with more memory, or smaller sizes"
        case _:
            cause = root_cause(error)
            line = (
                f"unexpected error: {type(cause).__name__}: {first_line(cause)}; "
                "please report it as a fault of onnxfn, with its traceback"
            )
    return " ".join(line.splitlines())

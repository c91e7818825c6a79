"""Functions as commands of typer: with options of the table, their output, and errors in a line on the error stream."""

from __future__ import annotations

import inspect
import json
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import MappingProxyType
from typing import Annotated, Any

import typer

from onnxfn.export.jobs.error_lines import error_line
from onnxfn.export.jobs.options import OPTIONS, Option, stated
from onnxfn.specs.errors import OnnxfnError
from onnxfn.specs.version import VERSION

VERDICTS: Mapping[str, str] = MappingProxyType(
    {
        "green": "check passed|ok|good|verified",
        "yellow": "usable|unchecked",
        "bold red": "check FAILED|FAILED|poor|error",
    }
)
"""The color of a verdict on a terminal."""


def say(content: Any, *, err: bool = False) -> None:
    """Prints text on standard output, or on the error stream; lines are not broken, a terminal shows colors."""
    from rich.console import Console
    from rich.text import Text

    # rich reads NO_COLOR and the kind of the terminal.
    console = Console(stderr=err)
    if console.is_terminal:
        text = Text(str(content))
        for style, words in VERDICTS.items():
            text.highlight_regex(rf"\b({words})\b(?=\s|$|[,;·])", style)
        console.print(text, soft_wrap=True, markup=False, emoji=False)
    else:
        typer.echo(content, err=err)


@contextmanager
def one_line_errors(*, debug: bool) -> Iterator[None]:
    """Prints an error and its notes, and exits with 1; the traceback is in a file, or before it with `debug`."""
    try:
        yield
    # typer turns these into an exit code. A broken pipe is a reader, such as `head`, that stopped.
    except (typer.Exit, typer.Abort, BrokenPipeError):
        raise
    except Exception as error:  # noqa: BLE001 - whatever happens, the user sees one line
        if debug:
            traceback.print_exception(error)
        is_known = isinstance(error, OnnxfnError) and error.__cause__ is None  # its traceback says no more
        saved = "" if debug or is_known else f" (traceback: {_saved_traceback(error)})"
        for line in (f"error: {error_line(error)}{saved}", *getattr(error, "__notes__", ())):
            say(line, err=True)
        raise typer.Exit(1) from None


def _saved_traceback(error: Exception) -> str:
    """Writes the traceback of an error to a new temporary file; the path of the file, or why there is none."""
    try:
        with NamedTemporaryFile("w", prefix="onnxfn-error-", suffix=".txt", delete=False, encoding="utf-8") as file:
            file.write(f"onnxfn {VERSION}: {' '.join(sys.argv)}\n\n")
            traceback.print_exception(error, file=file)
    except (OSError, UnicodeError):
        return "not saved; repeat the command with --debug"
    return file.name


Out = Annotated[Path, typer.Argument(help="A folder, or a file that ends in .onnx.")]


def command(function: Callable[..., None], *options: str) -> Callable[..., None]:
    """A command that calls a function, with `--debug`; as `values` it gets what the user wrote for `options`."""
    own = [each for each in inspect.signature(function, eval_str=True).parameters.values() if each.name != "values"]
    taken = (*options, "debug")

    def run(**arguments: Any) -> None:
        values = stated({name: arguments.pop(name) for name in taken})
        with one_line_errors(debug=values.pop("debug", False)):
            function(**arguments, **({"values": values} if options else {}))

    run.__doc__, run.__annotations__ = function.__doc__, {}
    parameters = [*own, *(_parameter(OPTIONS[name]) for name in taken)]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def _parameter(option: Option) -> inspect.Parameter:
    """The parameter from which typer makes an option."""
    kind: Any = list[str] if option.kind is list else option.kind
    described = typer.Option(option.flag, *option.words, help=option.help, rich_help_panel=option.group)
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=False if kind is bool else None,
        annotation=Annotated[kind if kind is bool else kind | None, described],
    )


@cache  # it is asked for each option of a command
def answers() -> Mapping[str, str]:
    """From each refused option of Optimum, without hyphens in front, to the replacement, or why there is none."""
    return MappingProxyType(json.loads(Path(__file__).with_name("optimum_options.json").read_text(encoding="utf-8")))


def our_option(word: str) -> str:
    """The word of our option for a word without hyphens in front. BadParameter for a refused option of Optimum."""
    name = word.replace("_", "-")
    if answer := answers().get(name):
        raise typer.BadParameter(f"no option {'-' if len(word) == 1 else '--'}{word}: {answer}")
    return "library" if name == "library-name" else name

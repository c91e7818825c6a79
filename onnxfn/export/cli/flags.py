"""Functions as commands of typer: with options of the table, their output, and errors in a line on the error stream."""

import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import MappingProxyType
from typing import Annotated, Any

import typer

from onnxfn.export.jobs.options import GROUPS, OF_HUB, OPTIONS, Option, completed, stated
from onnxfn.specs.errors import OnnxfnError, error_line
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
        is_known = isinstance(error, OnnxfnError) and isinstance(error.__cause__, OnnxfnError | None)  # says all
        saved = "" if debug or is_known else f" (traceback: {_saved_traceback(error)})"
        for line in (f"error: {error_line(error)}{saved}", *getattr(error, "__notes__", ())):
            say(without_token(with_options(line)), err=True)
        raise typer.Exit(1) from None


def _saved_traceback(error: Exception) -> str:
    """Writes the traceback of an error to a new temporary file; the path of the file, or why there is none."""
    try:
        with NamedTemporaryFile("w", prefix="onnxfn-error-", suffix=".txt", delete=False, encoding="utf-8") as file:
            lines = [f"onnxfn {VERSION}: {' '.join(sys.argv)}\n\n", *traceback.format_exception(error)]
            file.write(without_token("".join(lines)))
    except (OSError, UnicodeError):
        return "not saved; repeat the command with --debug"
    return file.name


def with_options(text: str) -> str:
    """A text with `--shape length=1:8` where it advises to call `with_shapes(spec, length=(1, 8))`, and such."""

    def options(call: re.Match[str]) -> str:
        sizes = re.findall(r"(\w+=)\(?(\d+)(?:, (\d+))?", call[1])
        return " ".join(f"--shape {name}{':'.join(filter(None, ends))}" for name, *ends in sizes)

    text = text.replace("with_tolerance(spec, atol=...)", "--atol").replace("check=False", "--no-check")
    return re.sub(r"with_shapes\(spec, ((?:\w+=(?:\d+|\(\d+, \d+\))(?:, )?)+)\)", options, text)


def without_token(text: str) -> str:
    """A text without the token of the hub, which a command line or an error may hold."""
    token = os.environ.get(OF_HUB["token"])
    return text.replace(token, "***") if token else text


Out = Annotated[Path, typer.Argument(help="A folder, or a file that ends in .onnx.")]


def command(function: Callable[..., None], *options: str, is_long: bool = False) -> Callable[..., None]:
    """A command that calls a function, with `--debug`; as `values` it gets what the user wrote for `options`."""
    own = [each for each in inspect.signature(function, eval_str=True).parameters.values() if each.name != "values"]
    taken = (*options, "debug")

    def run(**arguments: Any) -> None:
        values = stated({name: arguments.pop(name) for name in taken})
        arguments.pop("help_all", None)
        os.environ.update({variable: str(values[name]) for name, variable in OF_HUB.items() if name in values})
        values.pop("token", None)  # the client of the hub reads it there
        with one_line_errors(debug=values.pop("debug", False)):
            function(**arguments, **({"values": values} if options else {}))

    run.__doc__, run.__annotations__ = function.__doc__, {}
    by_group = sorted(taken, key=lambda name: GROUPS.index(OPTIONS[name].group))
    parameters = [_parameter(OPTIONS[name], hidden=is_long and not OPTIONS[name].is_first) for name in by_group]
    if is_long:
        described = typer.Option("--help-all", is_eager=True, callback=_all_help, help="Show all options and exit.")
        parameters.append(_keyword("help_all", bool, described))
    run.__signature__ = inspect.Signature([*own, *parameters])  # type: ignore[attr-defined]
    return run


def _all_help(context: typer.Context, value: bool) -> None:  # noqa: FBT001 - typer calls it
    if value:
        for parameter in context.command.params:
            parameter.hidden = False  # type: ignore[attr-defined]
        typer.echo(context.get_help())
        raise typer.Exit


def _parameter(option: Option, *, hidden: bool) -> inspect.Parameter:
    """The parameter from which typer makes an option."""
    kind: Any = list[str] if option.kind is list else option.kind
    described = typer.Option(
        *(option.flag, *option.words),
        help=option.help,
        rich_help_panel=option.group,
        hidden=hidden,
        autocompletion=(lambda incomplete: completed(option, incomplete)) if option.choices else None,
    )
    return _keyword(option.name, kind if kind is bool else kind | None, described)


def _keyword(name: str, kind: Any, described: Any) -> inspect.Parameter:
    default, annotation = False if kind is bool else None, Annotated[kind, described]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)

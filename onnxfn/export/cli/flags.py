"""Functions as commands of typer: with options of the table, their output, and errors in a line on the error stream."""

from __future__ import annotations

import inspect
import os
import sys
import traceback
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated, Any

import typer

from onnxfn.export.jobs.error_lines import error_line
from onnxfn.export.jobs.options import CHOICES, GROUPS, OF_HUB, OPTIONS, Option, choices, stated
from onnxfn.specs.errors import OnnxfnError
from onnxfn.specs.version import VERSION


def say(content: Any, *, err: bool = False) -> None:
    """Prints text on standard output, or on the error stream; lines are not broken, a terminal shows colors."""
    from rich.console import Console

    # rich reads NO_COLOR and the kind of the terminal.
    console = Console(stderr=err)
    if console.is_terminal:
        console.print(str(content), soft_wrap=True, markup=False, emoji=False)
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
            say(without_token(line), err=True)
        raise typer.Exit(1) from None


def _saved_traceback(error: Exception) -> str:
    """Writes the traceback of an error to a new temporary file; the path of the file, or why there is none."""
    try:
        with NamedTemporaryFile("w", prefix="onnxfn-error-", suffix=".txt", delete=False, encoding="utf-8") as file:
            told = [f"onnxfn {VERSION}: {' '.join(sys.argv)}\n\n", *traceback.format_exception(error)]
            file.write(without_token("".join(told)))
    except (OSError, UnicodeError):
        return "not saved; repeat the command with --debug"
    return file.name


@contextmanager
def hub_access(values: dict[str, Any]) -> Iterator[None]:
    """Takes the options of the hub out of `values`, and sets the variables that its client reads."""
    stated_now = {OF_HUB[name]: str(values.pop(name)) for name in OF_HUB if name in values}
    before = {name: os.environ.get(name) for name in stated_now}
    os.environ.update(stated_now)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def without_token(text: str) -> str:
    """A text without the token of the hub, which a command line or an error may hold."""
    token = os.environ.get(OF_HUB["token"])
    return text.replace(token, "***") if token else text


Out = Annotated[Path, typer.Argument(help="A folder, or a file that ends in .onnx.")]


def command(function: Callable[..., None], *options: str) -> Callable[..., None]:
    """A command that calls a function, with `--debug`; as `values` it gets what the user wrote for `options`."""
    own = [each for each in inspect.signature(function, eval_str=True).parameters.values() if each.name != "values"]
    taken = (*options, "debug")

    def run(**arguments: Any) -> None:
        values = stated({name: arguments.pop(name) for name in taken})
        arguments.pop("help_all", None)
        with hub_access(values), one_line_errors(debug=values.pop("debug", False)):
            function(**arguments, **({"values": values} if options else {}))

    run.__doc__, run.__annotations__ = function.__doc__, {}
    by_group = sorted(taken, key=lambda name: GROUPS.index(OPTIONS[name].group))
    is_long = len(options) > len(FIRST) + len(OF_HUB)
    parameters = [*own, *(_parameter(OPTIONS[name], hidden=is_long and name not in FIRST) for name in by_group)]
    if is_long:
        parameters.append(_HELP_ALL)
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run
Out = Annotated[Path, typer.Argument(help="A folder, or a file that ends in .onnx.")]


def command(function: Callable[..., None], *options: str, shown: Container[str] = OPTIONS) -> Callable[..., None]:
    """A command that calls a function, with `--debug`; as `values` it gets what the user wrote for `options`.

    Its help has the options that are `shown`; `--help-all` has the others too.
    """
    own = [each for each in inspect.signature(function, eval_str=True).parameters.values() if each.name != "values"]
    taken = (*options, "debug")

    def run(**arguments: Any) -> None:
        values = stated({name: arguments.pop(name) for name in taken})
        arguments.pop("help_all", None)
        with hub_access(values), one_line_errors(debug=values.pop("debug", False)):
            function(**arguments, **({"values": values} if options else {}))

    run.__doc__, run.__annotations__ = function.__doc__, {}
    by_group = sorted(taken, key=lambda name: GROUPS.index(OPTIONS[name].group))
    parameters = [_parameter(OPTIONS[name], hidden=name not in shown) for name in by_group]
    if shown is not OPTIONS:
        described = typer.Option("--help-all", is_eager=True, callback=_all_help, help=HELP_ALL)
        parameters.append(_keyword("help_all", bool, described))
    run.__signature__ = inspect.Signature([*own, *parameters])  # type: ignore[attr-defined]
    return run


HELP_ALL = "Show all options and exit."


def _all_help(context: typer.Context, is_given: bool) -> None:
    if is_given:
        for parameter in context.command.params:
            parameter.hidden = False  # type: ignore[attr-defined]
        typer.echo(context.get_help())
        raise typer.Exit


def _parameter(option: Option, *, hidden: bool) -> inspect.Parameter:
    """The parameter from which typer makes an option."""
    kind: Any = list[str] if option.kind is list else option.kind
    complete = (lambda incomplete: choices(option.name, incomplete)) if option.name in CHOICES else None
    names, shown = (option.flag, *option.words), {"rich_help_panel": option.group, "hidden": hidden}
    described = typer.Option(*names, help=option.help, autocompletion=complete, **shown)
    return _keyword(option.name, kind if kind is bool else kind | None, described)


def _keyword(name: str, kind: Any, described: Any) -> inspect.Parameter:
    default = False if kind is bool else None
    annotation = Annotated[kind, described]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)

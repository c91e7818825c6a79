"""Functions as commands of typer, with options of the table."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from onnxfn.export.cli.errors import one_line_errors
from onnxfn.export.jobs.options import OPTIONS, Option, stated

Out = Annotated[Path, typer.Argument(help="A folder, or a file that ends in .onnx.")]


def command(function: Callable[..., None], *options: str) -> Callable[..., None]:
    """A command that calls a function: with these options, with `--debug`, and with errors in one line.

    The function has arguments and options of its own as parameters. If the command has `options`, it gets as `values`
    what the user wrote for them, by their names.
    """
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

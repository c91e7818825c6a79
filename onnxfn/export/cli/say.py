"""The output of a command: plain text, with the colors of rich on a terminal."""

from __future__ import annotations

from typing import Any

import typer


def say(content: Any, *, err: bool = False) -> None:
    """Prints text on standard output, or on the error stream; lines are not broken, a terminal shows colors.

    rich reads NO_COLOR and the kind of the terminal.
    """
    from rich.console import Console

    console = Console(stderr=err)
    if console.is_terminal:
        console.print(str(content), soft_wrap=True, markup=False, emoji=False)
    else:
        typer.echo(content, err=err)

"""What a command says: plain text, with colors on a terminal. rich reads NO_COLOR and the kind of the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import typer

STYLES: Mapping[str, str] = MappingProxyType(
    {
        r"^\S.*$": "bold",
        r"^  \S.*$": "cyan",
        r"^error:|^warning:|\bFAILED\b|\bdiffers?\b|(?<=  )(failed|timed out|out of memory|lost)(?=  |$)": "bold red",
        r"\bcheck passed\b|(?<= )ok(?=  |$)|(?<=  )(exported|unchanged)(?=  |$)": "green",
        r"--[a-z][-a-z]+": "yellow",
    }
)
"""Patterns of what is said -> their styles: titles, headings of sections, what failed, what passed, options."""


def say(content: Any, *, err: bool = False) -> None:
    """Prints text on standard output, or on the error stream; lines are not broken, a terminal shows colors."""
    from rich.console import Console

    console = Console(stderr=err, highlight=False)
    if console.is_terminal:
        console.print(styled(str(content)), soft_wrap=True)
    else:
        typer.echo(content, err=err)


def styled(content: str) -> Any:
    """Text of rich with the styles of `STYLES`; a later pattern is above an earlier one."""
    from rich.text import Text

    text = Text(content)
    for pattern, style in STYLES.items():
        text.highlight_regex(f"(?m){pattern}", style)
    return text

"""Options of Optimum on our command line: the words that are ours too, and what to write instead of the others."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer

from onnxfn.export.cli.flags import say
from onnxfn.export.jobs.options import OPTIONS, Values
from onnxfn.specs.errors import closest


def our_word(word: str) -> str:
    """The word of our option for a word without hyphens in front, which may have underscores."""
    name = word.replace("_", "-")
    return "library" if name == "library-name" else name


def optimum_options() -> dict[str, Any]:
    """Options of Optimum: `answers`, `instead` (our words for some of them), and `flags` (those without a value)."""
    loaded: dict[str, Any] = json.loads(Path(__file__).with_name("optimum_options.json").read_text(encoding="utf-8"))
    return loaded


def refuse_other_words(words: Iterable[str], values: Values) -> tuple[str, ...]:
    """The words that are no options. If others remain, it says what to write instead of each, and exits with 2."""
    optimum = optimum_options()
    paths: list[str] = []
    lines: list[str] = []
    replaced: dict[str, None] = {}
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            paths.append(word)
            continue
        stem, is_given, value = word.partition("=")
        name = our_word(stem.lstrip("-"))
        if answer := optimum["answers"].get(name):
            value = value if is_given or name in optimum["flags"] else next(rest, "")
            paths = [value, *paths] if name in ("m", "model") else paths
            replaced[optimum["instead"].get(f"{name} {value}", optimum["instead"].get(name, "")).format(value)] = None
        closest_flag = closest(stem, (option.flag for option in OPTIONS.values()))
        lines.append(f"no option {stem}{f': {answer}' if answer else closest_flag}")
    if paths[1:2] == ["onnx"] and len(paths) > 2:  # noqa: PLR2004 - as in `optimum-cli export onnx -m MODEL OUT`
        del paths[1]
    if len(paths) > 2 and not lines:  # noqa: PLR2004 - MODEL and OUT
        lines.append(f"{paths[2]!r} follows MODEL and OUT; quote a path that has spaces")
    if lines:
        _refuse(lines, paths, values, [word for word in replaced if word])
    return tuple(paths)


def _refuse(lines: list[str], paths: list[str], values: Values, replaced: list[str]) -> None:
    from onnxfn.export.jobs.request import command_line

    layout = {} if "layout" in values else {"layout": "optimum"}
    model, out, *_ = *paths, *("MODEL", "OUT")[len(paths) :]
    for line in lines:
        say(f"error: {line}", err=True)
    if any(": " in line for line in lines):
        say(" ".join(("instead:", command_line({**values, **layout}, model, out), *replaced)), err=True)
    raise typer.Exit(2)

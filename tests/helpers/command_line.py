"""The command line of onnxfn, called in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typer.testing import CliRunner

from onnxfn.export.cli.commands import app

if TYPE_CHECKING:
    from click.testing import Result


def invoke(*words: object, **options: str) -> Result:
    """The result of a command, whether it succeeds or not."""
    return CliRunner().invoke(app, [str(word) for word in words], **options)


def succeed(*words: object) -> Result:
    """The result of a command that succeeds."""
    result = invoke(*words)
    assert result.exit_code == 0, result.output
    return result

"""The command line of onnxfn, called in this process."""

from typer.testing import CliRunner, Result

from onnxfn.export.cli.commands import app


def invoke(*words: object, **options: str) -> Result:
    """The result of a command, whether it succeeds or not."""
    return CliRunner().invoke(app, [str(word) for word in words], **options)


def succeed(*words: object) -> Result:
    """The result of a command that succeeds."""
    result = invoke(*words)
    assert result.exit_code == 0, result.output
    return result

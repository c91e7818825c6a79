import io
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from onnxfn.export.cli.commands import app


class Terminal(io.StringIO):
    def isatty(self):
        return True


def invoke(*words: object, **options: str) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], **options)


def succeed(*words: object) -> Result:
    result = invoke(*words)
    assert result.exit_code == 0, result.output
    return result


def exported_checkpoint(model: Any, folder: Path, *words: object) -> Result:
    """The result of the export of a checkpoint to `out` in a folder, where the checkpoint is saved too."""
    model.save_pretrained(folder / "checkpoint")
    return succeed("export", folder / "checkpoint", folder / "out", *words)


def error_of(*words: object) -> str:
    result = invoke(*words)
    assert result.exit_code == 1, result.output
    assert "Traceback" not in result.output
    (line,) = (line for line in result.stderr.splitlines() if line.startswith("error: "))
    return line.removeprefix("error: ")

"""`onnxfn watch`: a script is run, and the modules that it calls are exported."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from onnxfn.export.cli.export_command import say_parts
from onnxfn.export.cli.progress import stages
from onnxfn.export.cli.texts import result_form
from onnxfn.export.jobs.options import Values, with_check
from onnxfn.export.run.diffusers import export_pipeline
from onnxfn.specs.errors import InvalidSpec, ModelNotFound, listed


def export_script(script: Path, out: Path, modules: Sequence[str], runs: Sequence[str], values: Values) -> None:
    """Runs a script but for its `__main__` part, watches modules in runs of it, exports them and prints the result.

    `modules`: texts NAME=EXPRESSION. `runs`: expressions. Both are of the names that the script has at its end.

    ModelNotFound if there is no such file, InvalidSpec for an expression that fails or is no module.
    """
    if not script.is_file():
        raise ModelNotFound(f"there is no file {script}; watch takes a Python script")
    sys.path.insert(0, str(script.parent.resolve()))  # as Python does for a script
    names = runpy.run_path(str(script))
    program = dict(_named_module(text, names) for text in modules)
    form, options = result_form(values), with_check({name: values[name] for name in values if name in OPTIONS})
    watched = [partial(_value, text, names, "--run") for text in runs]
    parts = export_pipeline(program, out, run=watched, on_event=stages(transient=form != "verbose"), **options)
    say_parts(form, str(out), parts)


OPTIONS = ("check", "no_check", "overwrite")
"""The options that `export_pipeline` takes, too."""


def _named_module(text: str, names: Mapping[str, Any]) -> tuple[str, Any]:
    name, _, expression = text.partition("=")
    if not name.isidentifier() or not expression:
        raise InvalidSpec(f"--modules {text} has no name or no expression; write --modules encoder=model.encoder")
    module = _value(expression, names, "--modules")
    if not hasattr(module, "state_dict"):
        raise InvalidSpec(f"--modules {text} is of the type {type(module).__name__}, and not an nn.Module")
    return name, module


def _value(expression: str, names: Mapping[str, Any], option: str) -> Any:
    """The value of an expression of a script that the user runs anyway."""
    try:
        code = compile(expression, option, "eval")
        return eval(code, dict(names))  # noqa: S307
    except (SyntaxError, NameError, AttributeError) as error:
        own = listed([name for name in names if not name.startswith("_")])
        raise InvalidSpec(f"{option} {expression}: {error}; names of the script: {own}") from error

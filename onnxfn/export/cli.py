"""The command line: options become records, records go to one call, and its result is printed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onnxfn.export.cli_batch import batch
from onnxfn.export.cli_export import export_from_library, export_request
from onnxfn.export.cli_files import inspect, push, verify_folder
from onnxfn.export.cli_optimum import our_option
from onnxfn.export.cli_options import Out, command
from onnxfn.export.cli_print import say
from onnxfn.export.demo import demo
from onnxfn.export.destination import check_destination
from onnxfn.export.lookup.lookup import tasks_for
from onnxfn.export.options import OPTIONS, Values
from onnxfn.graphs.cache_folder import cache_entries, clear_cache, default_cache_folder
from onnxfn.specs.version import VERSION

app: typer.Typer = typer.Typer(
    name="onnxfn",
    help="Export PyTorch and Hugging Face models to ONNX and check the files against PyTorch.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def export(
    model: Annotated[str, typer.Argument(help="The folder of a checkpoint, a GGUF file, or a name on the hub.")],
    out: Out,
    values: Values,
) -> None:
    """Export a checkpoint, with its configuration and tokenizer files."""
    export_from_library(values.get("library", "transformers"), export_request(model, out, values))


def tasks(model_type: Annotated[str, typer.Argument(help="A model type, such as bert.")]) -> None:
    """List the tasks of a model type."""
    say("\n".join(tasks_for(model_type)))


def cache(
    folder: Annotated[Path | None, typer.Option(help="The cache folder. Default: that of the user.")] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Delete the files of the cache.")] = False,
) -> None:
    """Show the cache of graphs without weights: its folder, the number of its files, their size."""
    folder = folder or default_cache_folder()
    entries = (clear_cache if clear else cache_entries)(folder)
    size = sum(entry.size for entry in entries)
    say(f"{folder}: {'deleted ' if clear else ''}{len(entries)} files, {size / 10**6:.1f} MB")


def demonstrate(out: Out, values: Values) -> None:
    """Export a real model, check it, and use it: all-MiniLM-L6-v2 compares sentences."""
    overwrite = "overwrite" in values
    check_destination(out, overwrite=overwrite)
    demo(out, overwrite=overwrite)


@app.callback(invoke_without_command=True)
def _main(version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False) -> None:
    if version:
        say(VERSION)
        raise typer.Exit


OF_BATCH = ("dtype", "check", "no_check", "dry_run", "json", "verbose", "overwrite")
"""The options that `batch` shares with `export`."""

app.command("export", context_settings={"token_normalize_func": our_option, "help_option_names": ["-h", "--help"]})(
    command(export, *(name for name in OPTIONS if name != "debug"))
)
app.command("verify")(command(verify_folder))
app.command("inspect")(command(inspect, "json"))
app.command("push")(command(push, "dry_run"))
app.command("batch")(command(batch, *OF_BATCH))
app.command("tasks")(command(tasks))
app.command("cache")(command(cache))
app.command("demo")(command(demonstrate, "overwrite"))

"""The command line: flags become records, records go to one call, and its result is printed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onnxfn.export import cli_flags as flags
from onnxfn.export.cli_batch import batch_command
from onnxfn.export.cli_errors import one_line_errors
from onnxfn.export.cli_export import export_from_library
from onnxfn.export.cli_files import inspect_command, push_command, verify_command
from onnxfn.export.cli_optimum import our_option
from onnxfn.export.cli_print import say
from onnxfn.export.cli_request import export_request
from onnxfn.export.demo import demo
from onnxfn.export.destination import check_destination
from onnxfn.export.lookup.lookup import tasks_for
from onnxfn.graphs.cache_folder import cache_entries, clear_cache, default_cache_folder
from onnxfn.specs.version import VERSION

app: typer.Typer = typer.Typer(
    name="onnxfn",
    help="Export PyTorch and Hugging Face models to ONNX and check the files against PyTorch.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.command(context_settings={"token_normalize_func": our_option, "help_option_names": ["-h", "--help"]})
def export(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="The folder of a checkpoint, a GGUF file, or a name on the hub.")],
    out: flags.Out,
    task: flags.Task = None,
    library: flags.Library = "transformers",
    opset: flags.Opset = None,
    atol: flags.Atol = None,
    rtol: flags.Rtol = None,
    dtype: flags.Dtypes = None,
    io_dtype: flags.IoDtype = None,
    size: flags.Sizes = None,
    shape: flags.Shapes = None,
    output: flags.Outputs = None,
    with_input: flags.Inputs = None,
    without: flags.Without = None,
    rename: flags.Renames = None,
    inputs_embeds: flags.InputsEmbeds = False,
    adapter: flags.Adapter = None,
    adapter_input: flags.AdapterInputs = None,
    shared_cache: flags.SharedCache = False,
    expanded_cache: flags.ExpandedCache = False,
    layout: flags.Layout = None,
    alias: flags.Alias = False,
    external_data_suffix: flags.ExternalDataSuffix = None,
    weights: flags.Weights = None,
    template_cache: flags.TemplateCache = None,
    no_template_cache: flags.NoTemplateCache = False,
    trace_all: flags.TraceAllLayers = False,
    decoders: flags.Decoders = "merged",
    monolith: flags.Monolith = False,
    split: flags.Split = False,
    fuse: flags.Fuse = "standard",
    check: flags.Check = None,
    no_check: flags.NoCheck = False,
    floor: flags.FloorValues = None,
    dry_run: flags.DryRun = False,
    json_: flags.Json = False,
    verbose: flags.Verbose = False,
    overwrite: flags.Overwrite = False,
    trust_remote_code: flags.TrustRemoteCode = False,
    dequantize: flags.Dequantize = False,
    debug: flags.Debug = False,
) -> None:
    """Export a checkpoint, with its configuration and tokenizer files."""
    with one_line_errors(debug=debug):
        flags.check_flags_of_library(library, context)
        export_from_library(library, export_request(context.params))


app.command("verify")(verify_command)
app.command("inspect")(inspect_command)
app.command("push")(push_command)
app.command("batch")(batch_command)


@app.command()
def tasks(
    model_type: Annotated[str, typer.Argument(help="A model type, such as bert.")], debug: flags.Debug = False
) -> None:
    """List the tasks of a model type."""
    with one_line_errors(debug=debug):
        say("\n".join(tasks_for(model_type)))


@app.command()
def cache(
    folder: Annotated[Path | None, typer.Option(help="The cache folder. Default: that of the user.")] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Delete the files of the cache.")] = False,
    debug: flags.Debug = False,
) -> None:
    """Show the cache of graphs without weights: its folder, the number of its files, their size."""
    with one_line_errors(debug=debug):
        folder = folder or default_cache_folder()
        entries = (clear_cache if clear else cache_entries)(folder)
        size = sum(entry.size for entry in entries)
        say(f"{folder}: {'deleted ' if clear else ''}{len(entries)} files, {size / 2**20:.1f} MiB")


@app.command("demo")
def demo_command(out: flags.Out, overwrite: flags.Overwrite = False, debug: flags.Debug = False) -> None:
    """Export a real model, check it, and use it: all-MiniLM-L6-v2 compares sentences."""
    with one_line_errors(debug=debug):
        check_destination(out, overwrite=overwrite)
        demo(out, overwrite=overwrite)


@app.callback(invoke_without_command=True)
def _main(version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False) -> None:
    if version:
        say(VERSION)
        raise typer.Exit

"""The flags of the command line: their types, names and help texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onnxfn.specs.errors import InvalidSpec

Out = Annotated[Path, typer.Argument(help="A folder, or a file that ends in .onnx.")]
Task = Annotated[str | None, typer.Option(help="The task of the model. Default: the task of the checkpoint.")]
Library = Annotated[
    str,
    typer.Option(help="The library of the model: transformers, sentence_transformers, timm, or diffusers (pipelines)."),
]
Overwrite = Annotated[
    bool,
    typer.Option(
        "--overwrite", "--force", help="Write to a path that exists; the files of an earlier export there are deleted."
    ),
]
Check = Annotated[
    str | None,
    typer.Option(
        help="Compare the files with PyTorch before they appear at the path: whole (each file as it is), sections (one "
        "layer at a time, for models larger than memory) or none. Default: whole."
    ),
]
NoCheck = Annotated[bool, typer.Option("--no-check", help="The same as --check none.")]
FloorValues = Annotated[
    list[str] | None,
    typer.Option(
        "--floor",
        help="What a quantized or 16-bit variant must reach, such as agreement=0.9 or kl=0.05: agreement, kl (at "
        "most), cosine, iou, cases, weights.",
    ),
]
Opset = Annotated[int | None, typer.Option(help="The ONNX opset, 18 to 25. Default: 18.")]
Atol = Annotated[float | None, typer.Option(help="Absolute tolerance, in place of PyTorch's own error.")]
Rtol = Annotated[float | None, typer.Option(help="Relative tolerance, in place of PyTorch's own error.")]
Dtypes = Annotated[
    list[str] | None,
    typer.Option(
        "--dtype",
        help="dtype of the weights: float32, float16, bfloat16, q8, int8, uint8, q4, q4f16 or bnb4. Several options: "
        "files for each, with the suffixes of transformers.js. Default: float32.",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Print the plan and the bytes of the weights; read no weight, and write nothing."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON alone on standard output; CLI.md has its fields.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Print the plan and the whole result. Without it: at most 25 lines.")
]
IoDtype = Annotated[
    str | None,
    typer.Option(
        help="dtype of float inputs and outputs that are no cache, such as float32 with --dtype float16. Default: that "
        "of the weights for optimum, else float32."
    ),
]
Sizes = Annotated[
    list[str] | None, typer.Option("--size", help="Size of an axis in the dummy inputs, such as sequence_length=32.")
]
Shapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        help="Size of an axis that is fixed in the graph, such as batch_size=1; or the smallest and largest size of an "
        "axis that stays dynamic, such as sequence_length=1:128.",
    ),
]
Outputs = Annotated[
    list[str] | None, typer.Option("--output", help="An optional output to add: hidden_states, attentions, ...")
]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--with-input", help="An optional input to add, which the result names as left out: attention_mask, ..."
    ),
]
Without = Annotated[
    list[str] | None,
    typer.Option("--without", help="An input or an output to leave out of all files, such as attention_mask."),
]
Renames = Annotated[
    list[str] | None,
    typer.Option(
        "--rename",
        help="Another name for an input or an output, OLD=NEW. For the cache: present.{layer}.key=new_{layer}.",
    ),
]
InputsEmbeds = Annotated[
    bool,
    typer.Option(
        "--inputs-embeds",
        help="The graph takes embeddings instead of token ids; the embedding table is a file of its own.",
    ),
]
Decoders = Annotated[
    str,
    typer.Option(
        help="The decoder files: merged (one file, with and without a past), separate (two files), or both (all three)."
    ),
]
Monolith = Annotated[
    bool,
    typer.Option("--monolith", help="One file for an encoder-decoder, which computes all of it and has no past."),
]
Split = Annotated[
    bool, typer.Option("--split", help="One file for each part of the model: text_model.onnx, vision_model.onnx.")
]
Adapter = Annotated[
    Path | None,
    typer.Option(help="The folder of a LoRA adapter that PEFT wrote; it is merged into the weights."),
]
AdapterInputs = Annotated[
    list[str] | None,
    typer.Option(
        "--adapter-input",
        help="Linear layers for which the graph takes a LoRA adapter as inputs: q_proj, ...; --adapter is then a file "
        "for ONNX Runtime, and is not merged.",
    ),
]
SharedCache = Annotated[
    bool,
    typer.Option(
        "--shared-cache",
        help="A decoder whose past and present may lie in one buffer: onnxruntime-genai then copies no cache.",
    ),
]
ExpandedCache = Annotated[
    bool,
    typer.Option(
        "--expanded-cache",
        help="Keys and values of all heads as the cache of a model with latent attention, as ORTModel needs them.",
    ),
]
Layout = Annotated[
    str | None,
    typer.Option(
        help="The programs that the folder is for: hub (onnx/ and the files of transformers.js, onnxruntime-genai, "
        "ORTModel and sentence-transformers), transformers.js, or optimum (files at the root). Default: hub; optimum "
        "for diffusers."
    ),
]
Alias = Annotated[
    bool,
    typer.Option(
        "--alias",
        help="config.json states the model type gemma where a client of the layout does not know the true one; the "
        "result names it.",
    ),
]
ExternalDataSuffix = Annotated[
    str | None, typer.Option(help="Suffix of the external data file. Default: .onnx_data, after the name of the part.")
]
Weights = Annotated[
    str | None,
    typer.Option(
        help="Where the weights are: share (stored once for all files), copy (in each file that uses them), "
        "link (hard links to the checkpoint), or none (not written). Default: copy; share for optimum."
    ),
]
TemplateCache = Annotated[
    Path | None,
    typer.Option(help="Folder of the cache of graphs without weights. Default: onnxfn/templates in the user's cache."),
]
NoTemplateCache = Annotated[
    bool, typer.Option("--no-template-cache", help="Do not read or write the cache of graphs without weights.")
]
TraceAllLayers = Annotated[
    bool, typer.Option("--trace-all-layers", help="Trace all layers instead of tracing one period and repeating it.")
]
TrustRemoteCode = Annotated[
    bool,
    typer.Option("--trust-remote-code", help="Run code of the checkpoint, for a model type unknown to transformers."),
]
Dequantize = Annotated[
    bool,
    typer.Option(
        "--dequantize", help="Export a quantized checkpoint (GPTQ, AWQ, FP8, GGUF, ...) as a model with float weights."
    ),
]
Debug = Annotated[
    bool, typer.Option("--debug", help="Print the traceback of an error. Without it the error names a file with it.")
]

SPEC_FLAGS = (
    "task",
    "opset",
    "dtype",
    "io_dtype",
    "atol",
    "rtol",
    "size",
    "shape",
    "output",
    "with_input",
    "without",
    "rename",
    "inputs_embeds",
    "monolith",
    "split",
    "adapter",
    "adapter_input",
    "shared_cache",
    "expanded_cache",
    "floor",
)
"""The flags of `export` that edit the spec of one model, so that a pipeline of several models cannot have them."""


def check_flags_of_library(library: str, context: typer.Context) -> None:
    """Raises InvalidSpec for a pipeline of diffusers if a flag was given that edits the spec of a single model."""
    for name in SPEC_FLAGS if library == "diffusers" else ():
        source = context.get_parameter_source(name)
        if source is not None and source.name != "DEFAULT":
            flag = name.replace("_", "-")
            raise InvalidSpec(f"--{flag} is not for a whole pipeline; export the part by its own spec")

"""The options of an export: one table for the command line, for jobs in a file, for reports and for edits."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

from attrs import Factory, asdict, field, frozen, has

from onnxfn.specs.errors import InvalidSpec, refuse_unknown, shortened


def texts(flag: str, values: Any) -> tuple[str, ...]:
    """One text or several as a tuple; InvalidSpec for anything else."""
    words = (values,) if isinstance(values, str) else tuple(values)
    if not all(isinstance(value, str) for value in words):
        raise InvalidSpec(f"{flag} is {shortened(values)}; write a text, or a list of texts")
    return words


def parsed_sizes(flag: str, values: Any) -> tuple[tuple[str, int], ...]:
    """The names and sizes of axes in texts NAME=NUMBER, or in a mapping; InvalidSpec if one has no number."""
    pairs = tuple((name, _number(size)) for name, size in _pairs(values))
    for name, size in pairs:
        if not isinstance(size, int):
            raise InvalidSpec(f"{flag} {name} has no number; write {flag} {name or 'sequence_length'}=32")
    return pairs


def parsed_shapes(flag: str, values: Any) -> tuple[tuple[str, int | tuple[int, int]], ...]:
    """Names of axes, each with its size or range, as in NAME=1:128 or `{"NAME": [1, 128]}`; else InvalidSpec."""
    return tuple(_parsed_shape(flag, name, size) for name, size in _pairs(values))


def parsed_names(flag: str, values: Any) -> tuple[tuple[str, str], ...]:
    """Old and new names in texts OLD=NEW, or in a mapping; InvalidSpec if one lacks a name."""
    pairs = _pairs(values)
    for old, new in pairs:
        if not (old and new):
            raise InvalidSpec(f"{flag} {old} has no new name; write {flag} OLD=NEW")
    return pairs


def _pairs(values: Any) -> tuple[tuple[str, Any], ...]:
    """The names and values in texts NAME=VALUE, in a mapping, or in pairs."""
    items = values.items() if isinstance(values, Mapping) else values
    return tuple(item.partition("=")[::2] if isinstance(item, str) else tuple(item) for item in items)


def _number(size: Any) -> Any:
    return int(size) if isinstance(size, str) and size.isdecimal() else size


def _parsed_shape(flag: str, name: str, size: Any) -> tuple[str, int | tuple[int, int]]:
    sizes = size.split(":") if isinstance(size, str) else size if isinstance(size, list | tuple) else [size]
    match [*map(_number, sizes)]:
        case [int() as fixed]:
            return name, fixed
        case [int() as low, int() as high] if low < high:
            return name, (low, high)
    axis = name or "sequence_length"
    raise InvalidSpec(
        f"{flag} {name}={size} is neither a size nor a range; write {flag} {axis}=32, or {flag} {axis}=1:128 for sizes "
        "from 1 to 128"
    )


def run_arguments(text: str) -> dict[str, Any]:
    """The arguments of a run in a text NAME=VALUE,NAME=VALUE; what is no value of Python is a text.

    >>> run_arguments("prompt=a cat, asleep,height=64,guidance_scale=1.5")
    {'prompt': 'a cat, asleep', 'height': 64, 'guidance_scale': 1.5}
    """
    arguments: dict[str, Any] = {}
    for item in re.split(r",(?=\w+=)", text):
        name, is_given, value = item.partition("=")
        if not is_given:
            raise InvalidSpec(
                f"--run {shortened(text)} has no value for {name!r}; write --run 'prompt=a cat,height=64'"
            )
        try:
            arguments[name.strip()] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            arguments[name.strip()] = value
    return arguments


def parsed_dtypes(flag: str, values: Any) -> tuple[str, ...]:
    """Our names of dtypes; those of clients are translated."""
    from onnxfn.specs.edits.tensors import dtype_names

    return dtype_names(texts(flag, values))


def floors_of(flag: str, values: Any) -> Any:
    """The floors in texts NAME=NUMBER, or in a mapping."""
    from onnxfn.specs.results.measurements import Floors, parsed_floors

    return Floors(**values) if isinstance(values, Mapping) else parsed_floors(flag, values)


def as_written(value: Any) -> Any:
    """The written value of an option, from its value: a text for each item of a tuple or of a record."""
    if has(type(value)):
        return as_written(tuple((name, each) for name, each in asdict(value).items() if each is not None))
    if isinstance(value, tuple):
        return [each if isinstance(each, str) else f"{each[0]}={_as_text(each[1])}" for each in value]
    return str(value) if isinstance(value, Path) else value


def _as_text(value: Any) -> str:
    return ":".join(map(str, value)) if isinstance(value, tuple) else str(value)


Values = Mapping[str, Any]
"""The written values of options, by their names."""

SPEC = "spec"
"""The value of `Option.sets` for an edit of the spec; the edits are in `export/run/spec_edits.py`."""

TRANSFORMERS = "transformers"
LIBRARIES = (TRANSFORMERS, "sentence_transformers", "timm", "diffusers")
NOT_TIMM = tuple(library for library in LIBRARIES if library != "timm")

OF_ONE_MODEL = (SPEC, "adapter", "dtypes", "decoders", "floors", "calibration")
"""What options set that a pipeline of diffusers cannot have: it has several specs."""

CHOICES: Mapping[str, str] = MappingProxyType(
    {
        "task": "specs.tasks.tasks:TASKS",
        "library": "export.jobs.options:LIBRARIES",
        "dtype": "specs.edits.tensors:FLOAT_NAMES",
        "io_dtype": "specs.edits.tensors:FLOAT_DTYPES",
        "layout": "weights.layouts:LayoutName",
        "weights": "weights.write:WeightStorage",
        "decoders": "specs.plan.planning:Decoders",
        "check": "specs.results.measurements:CheckMode",
    }
)
"""Option -> where its values are, for the completion of a shell."""


def choices(name: str, incomplete: str) -> list[str]:
    """The values of an option that begin with a text."""
    module, _, values = CHOICES[name].partition(":")
    known = getattr(import_module(f"onnxfn.{module}"), values)
    return [value for value in get_args(known) or known if value.startswith(incomplete)]


GROUPS = MODEL, TASK, FILES, NUMBERS, CHECK, OUTPUT = (
    *("Model", "Task and inputs", "Files", "Numbers", "Check", "Output"),
)
"""The headings of the help, in its order."""

FIRST = (
    *("task", "shape", "layout", "overwrite", "dtype", "opset", "check", "trust_remote_code", "dry_run", "verbose"),
)
"""The options that people use first. `--help-all` shows the others."""


@frozen
class Option:
    """An option of an export.

    Attributes:
        name: The key of a job; on the command line with hyphens.
        kind: The type of what is written: `list` for an option that may be repeated, `bool` for a flag.
        group: The heading in the help.
        sets: The field of `ExportRequest` that it sets, such as `write.layout`; `spec` for an edit of the spec; empty
            for what only the command line has.
        help: The help text.
        read: From the flag and what was written to the value of the field, or of the edit. Default: texts for `list`,
            else the same.
        libraries: The libraries whose models can have it.
        words: Other words of the command line.
    """

    name: str
    kind: type
    group: str
    sets: str
    help: str
    read: Callable[[str, Any], Any] = field(
        default=Factory(lambda option: texts if option.kind is list else lambda _, value: value, takes_self=True)
    )
    libraries: tuple[str, ...] = field(
        default=Factory(lambda option: LIBRARIES[:-1] if option.sets in OF_ONE_MODEL else LIBRARIES, takes_self=True)
    )
    words: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        """The word of the command line."""
        return f"--{self.name.replace('_', '-')}"


def _tolerance(_: str, tolerance: Any) -> Any:
    from onnxfn.specs.algebra.spec import ExportSpec
    from onnxfn.specs.edits.tensors import with_tolerance

    with_tolerance(ExportSpec(), atol=tolerance)  # a record refuses infinite numbers with fewer words
    return tolerance


def _within(_: str, limit: str) -> str:
    from onnxfn.specs.quantization import within_of

    within_of(limit)
    return limit


def _all_layers(*_: Any) -> Any:
    from onnxfn.graphs.build_options import trace_all_layers

    return trace_all_layers


_TABLE = (
    Option("task", str, TASK, SPEC, "The task of the model. Default: the task of the checkpoint."),
    Option(
        *("library", str, MODEL, "library"),
        "The library of the model: transformers, sentence_transformers, timm, or diffusers (pipelines).",
    ),
    Option(
        *("revision", str, MODEL, "revision", "Branch, tag or commit of MODEL on the hub. Default: main."),
        libraries=NOT_TIMM,
    ),
    Option("token", str, MODEL, "", "Token of the hub. Default: that of `hf auth login`, or the variable HF_TOKEN."),
    Option("cache_dir", Path, MODEL, "", "Folder of downloads from the hub. Default: the user's."),
    Option(
        *("trust_remote_code", bool, MODEL, "trust_remote_code"),
        "Run code of the checkpoint, for a model type unknown to transformers.",
        libraries=NOT_TIMM,
    ),
    Option(
        *("dequantize", bool, MODEL, "dequantize"),
        "Export a quantized checkpoint (GPTQ, AWQ, FP8, GGUF, ...) as a model with float weights.",
        libraries=LIBRARIES[:1],
    ),
    Option("adapter", Path, MODEL, "adapter", "Folder of a LoRA adapter of PEFT, which is merged into the weights."),
    Option(
        *("run", list, MODEL, "runs"),
        "Arguments with which a pipeline runs, such as 'prompt=a cat,height=64,num_inference_steps=2': components "
        "unknown to onnxfn are exported as it calls them. What differs in a second --run moves in the graphs.",
        libraries=LIBRARIES[-1:],
    ),
    Option("monolith", bool, FILES, SPEC, "Write an encoder-decoder as one file, without a past."),
    Option("opset", int, NUMBERS, SPEC, "The ONNX opset, 18 to 28. Default: 18, which all clients of a layout run."),
    Option("atol", float, CHECK, SPEC, "Absolute tolerance, in place of PyTorch's own error.", read=_tolerance),
    Option("rtol", float, CHECK, SPEC, "Relative tolerance, in place of PyTorch's own error.", read=_tolerance),
    Option("split", bool, FILES, SPEC, "One file for each part of the model: text_model.onnx, vision_model.onnx."),
    Option(
        *("dtype", list, NUMBERS, "dtypes"),
        "dtype of the weights: float32, float16, bfloat16, q8, int8, uint8, q4, q4f16, q4c (calibrated), "
        "q4cf16, q4m (some in 8 bits), bnb4 (slow to run), int8-static or uint8-static (QDQ, calibrated). Several: "
        "files for each, with the suffixes of transformers.js. Default: float32.",
        read=parsed_dtypes,
    ),
    Option(
        *("float16_overflow", str, NUMBERS, "build.float16_overflow"),
        "If values of a float16 graph overflow, or nearly: mend (default; they are kept in float32) or refuse.",
    ),
    Option(
        *("within", str, NUMBERS, SPEC),
        "The limit within which the bits of each weight are chosen, 4 or more: bytes of weights, such as 0.6GB, or a "
        "KL divergence from PyTorch, such as kl=0.1.",
        read=_within,
    ),
    Option(
        *("calibration", Path, NUMBERS, "calibration"),
        "Text file for q4c, --within and static dtypes; for these also an .npz of inputs. Default: help of Python, "
        "pictures.",
    ),
    Option(
        *("io_dtype", str, NUMBERS, SPEC),
        "dtype of float inputs and outputs that are no cache, such as float32 with --dtype float16. Default: that of "
        "the weights for optimum, else float32.",
    ),
    Option("output", list, TASK, SPEC, "An optional output to add: hidden_states, attentions, ..."),
    Option(
        *("shape", list, TASK, SPEC),
        "Size of an axis that is fixed in the graph, such as batch_size=1; or the smallest and largest size of an "
        "axis that stays dynamic, such as sequence_length=1:128.",
        read=parsed_shapes,
    ),
    Option(
        *("with_input", list, TASK, SPEC),
        "An optional input to add. The result lists those that it leaves out, such as attention_mask.",
    ),
    Option("without", list, TASK, SPEC, "An input or an output to leave out of all files, such as attention_mask."),
    Option(
        "size", list, CHECK, SPEC, "Size of an axis in the dummy inputs, such as sequence_length=32.", read=parsed_sizes
    ),
    Option(
        *("adapter_input", list, TASK, SPEC),
        "Linear layers for which the graph takes a LoRA adapter as inputs: q_proj, ...; --adapter is then a file for "
        "ONNX Runtime, and is not merged.",
    ),
    Option("expanded_cache", bool, TASK, SPEC, "Cache keys and values of all heads, not latent ones, for ORTModel."),
    Option("shared_cache", bool, TASK, SPEC, "Past and present share a buffer: onnxruntime-genai copies no cache."),
    Option("static_cache", int, TASK, SPEC, "Keys and values lie in buffers of this length, in standard operators."),
    Option(
        *("inputs_embeds", bool, TASK, SPEC),
        "The graph takes embeddings instead of token ids; the embedding table is a file of its own.",
    ),
    Option(
        *("rename", list, TASK, SPEC),
        "Another name for an input or an output, OLD=NEW. For the cache: present.{layer}.key=new_{layer}.",
        read=parsed_names,
    ),
    Option(
        *("decoders", str, FILES, "decoders"),
        "The decoder files: merged (default; one file, with and without a past), separate (two files), or both (all "
        "three).",
    ),
    Option(
        *("check", str, CHECK, "check"),
        "Compare the files with PyTorch before they appear at the path: whole (each file as it is), sections (one "
        "layer at a time, for models larger than memory) or none. Default: whole.",
    ),
    Option("no_check", bool, CHECK, "check", "The same as --check none."),
    Option("threads", int, CHECK, "threads", "Threads of PyTorch and ONNX Runtime. Default: one for each idle core."),
    Option(
        *("floor", list, CHECK, "floors"),
        "What a quantized or 16-bit variant must reach, such as agreement=0.9 or kl=0.05: agreement, kl (at most), "
        "cosine, iou, cases, weights.",
        read=floors_of,
    ),
    Option(
        *("layout", str, FILES, "write.layout"),
        "The programs that the folder is for: hub (onnx/ and the files of transformers.js, onnxruntime-genai, "
        "ORTModel and sentence-transformers), transformers.js, or optimum (files at the root). Default: hub; optimum "
        "for diffusers.",
    ),
    Option(
        *("weights", str, FILES, "write.weight_storage"),
        "Where the weights are: share (stored once for all files), copy (in each file that uses them), link (hard "
        "links to the checkpoint), or none (not written). Default: copy; share for optimum.",
    ),
    Option(
        *("external_data_suffix", str, FILES, "write.external_data_suffix"),
        "Suffix of the external data file. Default: .onnx_data, after the name of the part.",
    ),
    Option(
        *("alias", bool, FILES, "write.alias"),
        "Write the model type gemma to config.json if a client of the layout does not know the true one. The result "
        "says so.",
    ),
    Option(
        *("overwrite", bool, FILES, "overwrite"),
        "Write to a path that exists; the files of an earlier export there are deleted.",
        words=("--force",),
    ),
    Option(
        *("template_cache", Path, FILES, "build.template_cache"),
        "Folder of the cache of graphs without weights. Default: onnxfn/templates in the user's cache.",
    ),
    Option(
        *("no_template_cache", bool, FILES, "build.template_cache"),
        "Do not read or write the cache of graphs without weights.",
        read=lambda *_: None,
    ),
    Option(
        *("trace_all_layers", bool, FILES, "build.find_repeats"),
        "Trace all layers instead of tracing one period and repeating it.",
        read=_all_layers,
    ),
    Option("push", str, OUTPUT, "", "Upload the checked files to a repository on the hub, such as me/my-model."),
    Option(
        *("dry_run", bool, OUTPUT, ""),
        "Print the plan and the bytes of the weights, or what would be done; read no weight, write nothing.",
    ),
    Option("json", bool, OUTPUT, "", "Print JSON alone on standard output."),
    Option(
        "verbose", bool, OUTPUT, "", "Print the plan and the whole result. Without it: at most 25 lines.", words=("-v",)
    ),
    Option("debug", bool, OUTPUT, "", "Print the traceback of an error, which is otherwise written to a file."),
)

OPTIONS: Mapping[str, Option] = MappingProxyType({option.name: option for option in _TABLE})
"""Name -> option. The edits of a spec are made in this order, after its dtype is set."""

EDITS = tuple(name for name, option in OPTIONS.items() if option.sets == SPEC)
JOB_KEYS = tuple(name for name, option in OPTIONS.items() if option.sets)
"""The options that a job in a file can have, besides `model` and `out`."""

OF_HUB: Mapping[str, str] = MappingProxyType({"token": "HF_TOKEN", "cache_dir": "HF_HUB_CACHE"})
"""The options that only the client of the hub reads, from these variables: no request, report or job has them."""

CALLER_KEYS = ("trust_remote_code", "template_cache")
"""The options that a job in a file cannot have: they run code, or read and write another folder than the exports."""

OF_ALL_JOBS = ("dtype", "check", "no_check", *CALLER_KEYS)
"""The options that a batch sets for its jobs."""


def stated(values: Values) -> dict[str, Any]:
    """The values of options without empty ones: None, a flag that is off, an empty list."""
    return {
        name: value
        for name, value in values.items()
        if not (value is None or value in ([], ()) or (value is False and OPTIONS[name].kind is bool))
    }


def value_of(name: str, written: Any) -> Any:
    """The value of an option. InvalidSpec if what was written is of another type."""
    option = OPTIONS[name]
    kinds = (int, float) if option.kind is float else (option.kind,)
    if option.sets == SPEC and option.kind is not list and type(written) not in kinds:
        raise InvalidSpec(f"{name} is {shortened(written)}; write a value of the type {option.kind.__name__}")
    return option.read(option.flag, written)


def checked_edits(edits: Any) -> tuple[tuple[str, Any], ...]:
    """Edits of a spec by the names of their options, as pairs in the order in which they are made."""
    try:
        values = dict(edits)
    except (TypeError, ValueError):
        return edits  # type: ignore[no-any-return]  # of a wrong type, which the record refuses
    for name in values:
        refuse_unknown("edit", str(name), EDITS)
    known = stated(values)
    return tuple((name, value_of(name, known[name])) for name in EDITS if name in known)


def with_check(values: Values) -> Values:
    """Values in which `check` says what `no_check` is short for. InvalidSpec for both."""
    if "no_check" not in values:
        return values
    if "check" in values:
        mode = values["check"]
        raise InvalidSpec(f"--no-check is --check none, and --check {mode} is another; leave out one of them")
    return {name: value for name, value in values.items() if name != "no_check"} | {"check": "none"}


def check_library(library: str, values: Values) -> None:
    """Raises InvalidSpec for an option that models of a library cannot have."""
    refused = [OPTIONS[name].flag for name in values if library not in OPTIONS[name].libraries]
    if library in LIBRARIES and refused:
        pipeline = "a whole pipeline; export the part by its own spec"
        raise InvalidSpec(f"{refused[0]} is not for {pipeline if library == 'diffusers' else f'models of {library}'}")

"""The options of an export: one table for the command line, for jobs in a file, for reports and for edits."""

import ast
import json
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

from attrs import asdict, frozen, has

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

GROUPS = ("Model", "Task and inputs", "Files", "Numbers", "Check", "Output")
"""The headings of the help, in its order."""


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
        read: From the flag and what was written to the value of the field, or of the edit.
        libraries: The libraries whose models can have it.
        words: Other words of the command line.
        is_first: Whether people use it first; `--help-all` shows the others.
        choices: Where the values are that a shell completes, as `module:name`.
    """

    name: str
    kind: type
    group: str
    sets: str
    help: str
    read: Callable[[str, Any], Any]
    libraries: tuple[str, ...]
    words: tuple[str, ...] = ()
    is_first: bool = False
    choices: str = ""

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


READS: Mapping[str, Callable[[str, Any], Any]] = MappingProxyType(
    {
        **dict.fromkeys(("atol", "rtol"), _tolerance),
        "dtype": parsed_dtypes,
        "within": _within,
        "shape": parsed_shapes,
        "size": parsed_sizes,
        "rename": parsed_names,
        "floor": floors_of,
        "no_template_cache": lambda *_: None,
        "trace_all_layers": _all_layers,
    }
)
"""Option -> from the flag and what was written to its value. Of others: texts for a list, else what was written."""

KINDS: Mapping[str, type] = MappingProxyType({kind.__name__: kind for kind in (str, int, float, bool, list, Path)})


def completed(option: Option, incomplete: str) -> list[str]:
    """The values of an option that begin with a text."""
    module, _, values = option.choices.partition(":")
    known = getattr(import_module(f"onnxfn.{module}"), values)
    return [value for value in get_args(known) or known if value.startswith(incomplete)]


def _option(name: str, kind: str, sets: str, **more: Any) -> Option:
    read = READS.get(name) or (texts if kind == "list" else lambda _, value: value)
    of_one_model = (SPEC, "adapter", "decoders", "floors", "calibration")  # a pipeline of diffusers has several specs
    libraries = LIBRARIES[:-1] if sets in of_one_model else LIBRARIES
    return Option(**{"name": name, "kind": KINDS[kind], "sets": sets, "read": read, "libraries": libraries, **more})


_ROWS = Path(__file__).with_name("options.json").read_text(encoding="utf-8")
OPTIONS: Mapping[str, Option] = MappingProxyType({row["name"]: _option(**row) for row in json.loads(_ROWS)})
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
    """The values of options without empty ones: None, a flag that is off, an empty list, and Optimum's task `auto`."""
    return {
        name: value
        for name, value in values.items()
        if not (value is None or value in ([], ()) or (value is False and OPTIONS[name].kind is bool))
        and (name, value) != ("task", "auto")
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

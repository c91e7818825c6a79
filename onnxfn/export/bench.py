"""Seconds to load and to run the ONNX files of an export: `onnxfn bench FOLDER`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from types import MappingProxyType
from typing import Any

import numpy as np
from attrs import asdict, frozen

from onnxfn.check.greedy_decoding import PAST, numpy_dtype, present_name
from onnxfn.check.sessions import open_session, runtime_message, silent_options
from onnxfn.export.loaded import check_providers
from onnxfn.specs.axes import terms, value
from onnxfn.specs.dummies import Array
from onnxfn.specs.edits.token_embeddings import EMBEDS
from onnxfn.specs.errors import InvalidSpec, unknown
from onnxfn.specs.limits import stated_limits
from onnxfn.specs.printing import text
from onnxfn.specs.reports import CPU

EXAMPLE_SIZES: Mapping[str, int] = MappingProxyType({"batch_size": 1, "height": 224, "width": 224, "num_channels": 3})
"""The sizes of axes that a file does not limit and the caller does not name."""

EXAMPLE_SIZE = 128
"""The size of all other axes; those of a cache are 0."""

TOKENS = ("input_ids", EMBEDS)
"""Inputs whose second axis is that of the new tokens."""

NEXT_TOKEN, PROMPT, RUN = "next token", "prompt", "run"


@frozen
class Timing:
    """The seconds of one step of a file.

    Attributes:
        file: The stem of the ONNX file.
        step: `prompt` or `next token` of a decoder with a cache, else `run`.
        sizes: The sizes of the dynamic axes.
        load: Seconds to open the file with ONNX Runtime.
        median: The median of the seconds of the runs.
        fastest: The seconds of the fastest run.
    """

    file: str
    step: str
    sizes: Mapping[str, int]
    load: float
    median: float
    fastest: float


def bench(
    files: Iterable[Path],
    sizes: Mapping[str, int],
    *,
    runs: int = 5,
    providers: Sequence[str] = CPU,
    threads: int | None = None,
) -> list[Timing]:
    """The seconds of each ONNX file to load and to run, on inputs made of ones and random numbers.

    A decoder with a cache runs a prompt, and then one token with the cache of that prompt. The values of the inputs do
    not matter for the time of nearly all models.

    Args:
        files: The ONNX files.
        sizes: The sizes of dynamic axes, by symbol. Default: a batch of 1, images of 224 x 224, 128 of all else; within
            the limits that a file states.
        runs: How often each step runs, after one run that is not counted.
        providers: The execution providers of ONNX Runtime.
        threads: The threads of an operator. None: ONNX Runtime's choice.

    Raises:
        UnknownName: No file has an axis of a name in `sizes`, or this build of ONNX Runtime has no such provider.
        InvalidSpec: A file does not run on inputs of these sizes.
        CheckFailed: ONNX Runtime cannot load a file.
    """
    check_providers(providers)
    opened = [(file, *_timed(partial(open_session, file, _options(threads), providers))) for file in files]
    known = {symbol for _, session, _ in opened for symbol in _symbols(session)}
    for symbol in sizes:
        if symbol not in known:
            raise unknown("axis", symbol, sorted(known), of="these files")
    return [
        Timing(file.stem, step, step_sizes, load, median(seconds), min(seconds))
        for file, session, load in opened
        for step, step_sizes, seconds in _steps(file.name, session, sizes, runs)
    ]


def bench_text(folder: str, timings: Sequence[Timing], summary: str) -> str:
    """Timings as a table.

    >>> print(bench_text("out", [Timing("model", "prompt", {"sequence_length": 128}, 0.5, 0.0214, 0.02)], "CPU"))
    out
      CPU
      milliseconds
        file   step    load   median  fastest  sizes
        model  prompt  500.0  21.4    20.0     sequence_length=128
    """
    heading = ("file", "step", "load", "median", "fastest", "sizes")
    rows = [
        (
            timing.file,
            timing.step,
            *map(_milliseconds, (timing.load, timing.median, timing.fastest)),
            _words(timing.sizes),
        )
        for timing in timings
    ]
    return text(folder, [("milliseconds", [heading, *rows])], summary)


def plain_timings(timings: Iterable[Timing]) -> list[dict[str, Any]]:
    """Timings as JSON has them, in seconds."""
    return [asdict(timing) for timing in timings]


def example_inputs(session: Any, sizes: Mapping[str, int]) -> dict[str, Array]:
    """An array for each input of a session: ones for integers and booleans, random numbers for floats.

    `sizes` has the size of each name in the symbols of the inputs.
    """
    random = np.random.default_rng(0)
    shapes = {port.name: [_size(axis, sizes) for axis in port.shape] for port in session.get_inputs()}
    dtypes = {port.name: numpy_dtype(port.type) for port in session.get_inputs()}
    return {
        name: (random.standard_normal(shape) if dtypes[name].kind == "f" else np.ones(shape)).astype(dtypes[name])
        for name, shape in shapes.items()
    }


def example_sizes(session: Any, sizes: Mapping[str, int]) -> dict[str, int]:
    """The size of each symbol of a session's inputs: that of the caller, else an example within the file's limits."""
    limits = stated_limits(session.get_modelmeta().custom_metadata_map)
    bounds = {limit.name: (limit.low, limit.high or 1 << 62) for limit in limits}
    examples = {symbol: _example_size(symbol) for symbol in _symbols(session)}
    within = {
        symbol: min(max(size, bounds[symbol][0]), bounds[symbol][1]) if symbol in bounds else size
        for symbol, size in examples.items()
    }
    return {symbol: sizes.get(symbol, size) for symbol, size in within.items()}


def _steps(
    name: str, session: Any, sizes: Mapping[str, int], runs: int
) -> Iterable[tuple[str, dict[str, int], list[float]]]:
    """Each step of a file: its name, the sizes of its axes, and the seconds of its runs."""
    first = example_sizes(session, sizes)
    inputs = example_inputs(session, first)
    past = [name for name in inputs if name.startswith(PAST)]
    yield PROMPT if past else RUN, first, _seconds(name, session, inputs, first, runs)
    if past:
        outputs, later = _run(name, session, inputs, first), _sizes_after(session, first)
        cache = {name: outputs[present_name(name)] for name in past if present_name(name) in outputs}
        yield NEXT_TOKEN, later, _seconds(name, session, {**example_inputs(session, later), **cache}, later, runs)


def _sizes_after(session: Any, first: Mapping[str, int]) -> dict[str, int]:
    """The sizes of the step after a prompt: one new token, and the tokens of the prompt in the cache."""
    axes = {port.name: port.shape for port in session.get_inputs()}
    new = next((axes[name][1] for name in TOKENS if len(axes.get(name, ())) > 1), "")
    added = first.get(new, 0)
    past = {symbol: size + added for symbol, size in first.items() if symbol.startswith(PAST)}
    return {**first, **past, **({new: 1} if new in first else {})}


def _seconds(name: str, session: Any, inputs: Mapping[str, Array], sizes: Mapping[str, int], runs: int) -> list[float]:
    """The seconds of each run, after one that is not counted: it allocates memory."""
    _run(name, session, inputs, sizes)
    return [_timed(partial(_run, name, session, inputs, sizes))[1] for _ in range(runs)]


def _run(name: str, session: Any, inputs: Mapping[str, Array], sizes: Mapping[str, int]) -> dict[str, Array]:
    names = [output.name for output in session.get_outputs()]
    try:
        return dict(zip(names, session.run(names, dict(inputs)), strict=True))
    except Exception as error:
        reason = runtime_message(error).rpartition("Status Message: ")[2]
        raise InvalidSpec(f"{name} does not run with {_words(sizes)}: {reason}; choose other sizes") from error


def _timed(call: Callable[[], Any]) -> tuple[Any, float]:
    start = perf_counter()
    result = call()
    return result, perf_counter() - start


def _options(threads: int | None) -> Any:
    options = silent_options()
    if threads is not None:
        options.intra_op_num_threads = threads
    return options


def _symbols(session: Any) -> set[str]:
    """The names in the symbols of the inputs' axes."""
    return {
        name for port in session.get_inputs() for axis in port.shape if isinstance(axis, str) for name in terms(axis)
    }


def _size(axis: int | str | None, sizes: Mapping[str, int]) -> int:
    return axis if isinstance(axis, int) else EXAMPLE_SIZE if axis is None else value(axis, sizes)


def _example_size(symbol: str) -> int:
    return 0 if symbol.startswith(PAST) else EXAMPLE_SIZES.get(symbol, EXAMPLE_SIZE)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f}"


def _words(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{symbol}={size}" for symbol, size in sorted(sizes.items()))

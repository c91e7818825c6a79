"""The ranges of the values of an ONNX file, measured by ONNX Runtime."""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import numpy as np

from onnxfn.graphs.value_ranges import range_outputs
from onnxfn.run.sessions import IN_PLACE_BYTES, check_options, run_session, watched_session
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.stored.reports import Tick, no_tick
from onnxfn.weights.onnx_files import parsed_model, with_weights_in_place

Ranges = Mapping[str, tuple[float, float]]
"""From the name of a value to its least and its largest element."""


def value_ranges(
    file: Path,
    feeds: Iterable[Mapping[str, Array]],
    names: Collection[str] | None = None,
    content: bytes | None = None,
    tick: Tick = no_tick,
    outside: float = 0,
) -> Ranges:
    """From the name of a float value of an ONNX file to its least and its largest element over all feeds.

    `names`: the values, in any order; None is all that nodes of the outer graph compute. Inputs of the graph are not
    among them, nor values that have no element in any feed. NaN does not count. The result is in the order of the
    graph. `content` replaces the bytes of the file; its weights lie in the file, or in its folder.

    `outside`: the share of the elements in one feed that may be below, and above.

    The graph computes the ranges itself, so no value is kept in memory for longer than its readers need it. CheckFailed
    if ONNX Runtime cannot load or run it.
    """
    import onnx_ir
    from onnxruntime import ExecutionOrder

    content = content or with_weights_in_place(file, IN_PLACE_BYTES)
    model = onnx_ir.from_proto(parsed_model(content))
    every, options = range_outputs(model, names, outside), check_options(file)
    # The default order may compute all values before the first range.
    options.execution_order = ExecutionOrder.PRIORITY_BASED
    session = watched_session(file, options, onnx_ir.to_proto(model).SerializeToString(), tick)
    runs = []
    for arrays in feeds:
        tick()
        outputs = run_session(session, None, arrays, f"{file.name} with the ranges of its values as outputs")
        runs.append(np.array(outputs, np.float64))
    pairs = np.array(runs).reshape(-1, len(every), 2)
    least, largest = pairs[..., 0].min(0, initial=np.inf), pairs[..., 1].max(0, initial=-np.inf)
    measured = zip(every, map(float, least), map(float, largest), strict=True)
    return {name: (low, high) for name, low, high in measured if low <= high}

"""The lines of Python that call the first file of a result by ONNX Runtime."""

import re
from collections.abc import Iterable, Sequence
from types import MappingProxyType
from typing import Any

from onnxfn.specs.results.printing import OPTIONAL
from onnxfn.specs.short_repr import grouped_rows, layer_groups

SIZES = MappingProxyType({"past_sequence_length": 0, "batch_size": 1})
"""The sizes of some axes in the example; others have 8."""

NUMPY = MappingProxyType({"bool": "bool_", "bfloat16": "float32"})


def snippet(facts: Any) -> str:
    """A call of each file with small inputs, all ones; the user puts real arrays in their place."""
    lines = ["import numpy as np", "import onnxruntime as ort"]
    for name, (inputs, _) in facts.ports.items():
        path = f"{facts.root}/{name}" if facts.root else name
        lines += ["", f'session = ort.InferenceSession("{path}")', *_feeds(inputs)]
        lines.append("outputs = dict(zip([each.name for each in session.get_outputs()], session.run(None, inputs)))")
    return "\n".join(lines)


def _feeds(inputs: Sequence[Sequence[str]]) -> Iterable[str]:
    """The lines that make the inputs that a call needs: a loop for those of layers."""
    inputs = [row for row in inputs if not row[1].endswith(OPTIONAL)]
    groups = [[inputs[index] for index in group] for group in layer_groups(inputs)]
    yield "inputs = {"
    for group in groups:
        if len(group) == 1:
            yield f'    "{group[0][0]}": {_array(group[0][1])},'
    yield "}"
    for group in groups:
        if len(group) > 1:
            pattern = re.sub(r"\{[\d.,]+\}", "{layer}", grouped_rows(group)[0][0])
            before = len(pattern.partition("{layer}")[0])
            yield f"for layer in {_range([int(re.findall(r'[0-9]+', row[0][before:])[0]) for row in group])}:"
            yield f'    inputs[f"{pattern}"] = {_array(group[0][1])}'


def _range(numbers: list[int]) -> str:
    whole = numbers == list(range(numbers[0], numbers[-1] + 1))
    return f"range({(f'{numbers[0]}, ' if numbers[0] else '')}{numbers[-1] + 1})" if whole else str(numbers)


def _array(type_: str) -> str:
    """An array of a type such as `int64[batch_size, sequence_length]`: all ones, or empty along the past."""
    dtype, _, axes = type_.rstrip("]").partition("[")
    sizes = [str(_size(axis.strip())) for axis in axes.split(",") if axis.strip()]
    return f"np.ones(({', '.join(sizes)}{',' if len(sizes) == 1 else ''}), np.{NUMPY.get(dtype, dtype)})"


def _size(axis: str) -> int:
    """The size of an axis in the example: its number, or the sum of the sizes of its terms."""
    return sum(int(term) if term.isdecimal() else SIZES.get(term, 8) for term in re.split(r" *\+ *", axis))

"""The values of a float16 file that overflow in its float form: ONNX Runtime's CPU computes much in float32."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnxfn.check.cases.references import CheckCase, Reference, affordable_cases, case_inputs, stated_limits
from onnxfn.check.variants.float_form import float_form
from onnxfn.check.variants.proof import feeds_of
from onnxfn.graphs.nodes.nodes import insert_value
from onnxfn.graphs.wide_values import Reach, overflowing_values, without_clips
from onnxfn.run.value_ranges import value_ranges
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.edits.token_embeddings import IDS
from onnxfn.specs.stored.reports import Tick
from onnxfn.weights.onnx_files import parsed_model

SUM = ".sum"
"""The end of the name of the sum inside a mean."""


def overflowing(
    model: Any,
    part: Part,
    file: Path,
    graph: Any,
    text: Reference | None,
    real_inputs: Mapping[str, Array] | None,
    *,
    in_all_cases: bool,
    tick: Tick,
) -> Reach:
    """The sizes of the float16 values of a file that overflow on `text`, or in a case: see `overflowing_values`."""
    # The second row of the text is a token that repeats; the third has the first and the last of the vocabulary.
    import onnx_ir

    content, _ = float_form(file, "float16")
    in_float32 = without_clips(onnx_ir.from_proto(parsed_model(content)))
    means = [node for node in in_float32.graph if node.op_type == "ReduceMean"]
    for node in means:  # a kernel of float16 may add the elements up in float16
        total = insert_value(node, "ReduceSum", node.inputs, node.outputs[0], node.outputs[0].shape, **node.attributes)
        total.name = node.outputs[0].name + SUM
    names = {value.name for node in (*graph.graph, *in_float32.graph) for value in node.outputs}
    cases = affordable_cases(model, part, real_inputs, stated_limits(file))
    if not in_all_cases:
        cases = () if text else (max(cases, key=lambda case: case.real_inputs is not None),)
    feeds = (feeds_of(part, inputs) for inputs in _inputs(model, part, text, cases))
    ranges = value_ranges(file, feeds, names, onnx_ir.to_proto(in_float32).SerializeToString(), tick)
    return overflowing_values(graph, {name: ranges.get(name + SUM, each) for name, each in ranges.items()})


def _inputs(
    model: Any, part: Part, text: Reference | None, cases: Sequence[CheckCase]
) -> Iterator[Mapping[str, Array]]:
    yield from [{**text.inputs, **_stress(text.inputs)}, *([text.inputs] if cases else [])] if text else []
    for case in cases:
        yield case.real_inputs or case_inputs(model, part, case.spec, "float32", seed=case.seed)


def _stress(inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The token ids of a text whose rows after the first repeat its commonest token, and its least and largest one."""
    if IDS not in inputs:
        return {}
    ids = inputs[IDS].copy()
    tokens, counts = np.unique(ids, return_counts=True)
    ids[1:2, 1:], ids[2:, 1:] = tokens[counts.argmax()], np.resize(tokens[[0, -1]], ids.shape[1] - 1)
    return {IDS: ids}

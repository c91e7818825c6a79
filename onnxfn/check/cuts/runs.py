"""The graphs of sections, cut out of a written ONNX file, whose weights stay where they are; and their runs."""

from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from attrs import field, frozen

from onnxfn.check.cuts.columns import large_matrices, products_by_columns
from onnxfn.check.cuts.cut import Section, Sections
from onnxfn.check.cuts.vertices import read_names
from onnxfn.run.sessions import IN_PLACE_BYTES, check_options, convert_on_use, run_session, watched_session
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.stored.reports import CheckFailed, Tick, no_tick
from onnxfn.weights.onnx_files import parsed_model, with_inner_graphs, with_weights_in_place


@frozen(eq=False)
class WrittenGraph:
    """A written ONNX file, all of whose weights are external data; and the types of its values, as numbers of ONNX."""

    file: Path
    model: Any
    initializers: Mapping[str, Any] = field(repr=False)
    types: Mapping[str, int] = field(repr=False)

    def with_outputs(self, names: Sequence[str]) -> bytes:
        """The bytes of this ONNX model with more of its values as outputs, after its own."""
        import onnx

        model = onnx.ModelProto.FromString(self.model.SerializeToString())
        own = {output.name for output in model.graph.output}
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in own)
        return bytes(model.SerializeToString())


def written_graph(file: Path, content: bytes | None = None) -> WrittenGraph:
    """The graph of an ONNX file or of `content`, with small weights. CheckFailed if a type cannot be inferred."""
    model = parsed_model(content or with_weights_in_place(file, IN_PLACE_BYTES))
    graph = model.graph
    stated = _types(graph)
    if any(name and name not in stated for node in graph.node for name in node.output):
        stated = {**_inferred_types(model, file), **stated}
    return WrittenGraph(file, model, {each.name: each for each in graph.initializer}, stated)


def _inferred_types(model: Any, file: Path) -> dict[str, int]:
    """The types of the values of a model, computed ones included."""
    import onnx

    # A file may state a shape that its value does not have: ONNX Runtime runs it. A type depends on no shape.
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    for graph in with_inner_graphs(copy.graph):
        for value in (*graph.value_info, *graph.output):
            if value.type.HasField("tensor_type"):
                value.type.tensor_type.ClearField("shape")
    try:
        return _types(onnx.shape_inference.infer_shapes(copy).graph)
    except onnx.shape_inference.InferenceError as error:
        raise CheckFailed(f"ONNX cannot infer the types of the values in {file.name}: {error}") from error


def _types(graph: Any) -> dict[str, int]:
    values = (*graph.value_info, *graph.input, *graph.output)
    return {value.name: value.type.tensor_type.elem_type for value in values}


def section_model(written: WrittenGraph, section: Section) -> bytes:
    """The ONNX model of a section: its nodes as the file has them, and references to their weights."""
    import onnx

    model = onnx.ModelProto(ir_version=written.model.ir_version)
    model.opset_import.extend(written.model.opset_import)
    model.functions.extend(written.model.functions)
    graph, nodes = model.graph, _nodes(written, section)
    graph.name = section.name
    # Only products with large matrices are computed in blocks: see `columns.py`.
    by_columns, constants = products_by_columns(nodes, written.initializers)
    graph.node.extend(by_columns)
    read = dict.fromkeys(name for node in nodes for name in read_names(node))
    weights = [written.initializers[name] for name in read if name in written.initializers]
    graph.initializer.extend([*weights, *constants])
    for name in section.inputs:
        graph.input.add(name=name).type.tensor_type.elem_type = written.types[name]
    for name in section.outputs:
        graph.output.add(name=name)
    return bytes(model.SerializeToString())


def _nodes(written: WrittenGraph, section: Section) -> list[Any]:
    return [written.model.graph.node[index] for index in section.nodes]


def section_session(written: WrittenGraph, section: Section, tick: Tick = no_tick) -> Any:
    """An ONNX Runtime session of a section. CheckFailed if ONNX Runtime cannot load it."""
    from onnxruntime import ExecutionOrder

    options = check_options(written.file)
    convert_on_use(options)  # an optimization would also copy blocks of columns: they are computed from constants
    if large_matrices(_nodes(written, section), written.initializers):
        # By priority, all blocks would be copied before the first is multiplied: they wait for no other node.
        options.execution_order = ExecutionOrder.DEFAULT
    return watched_session(written.file, options, section_model(written, section), tick)


Values = Mapping[str, Array]
"""Arrays by the names of values of a graph."""


def run_sections(
    written: WrittenGraph,
    sections: Sections,
    feeds: Sequence[Values],
    replaced: Sequence[Values],
    run_options: Any = None,
    tick: Tick = no_tick,
) -> Iterator[tuple[Section, Iterator[Values]]]:
    """Runs the sections in order, each in all cases; yields each section with an iterator over its outputs per case.

    The iterator runs the section, and must be at its end before the next section. Only one section is in memory at a
    time, with the outputs that later sections read. `feeds`: the inputs of the graph in each case. `replaced`: for each
    case, values that later sections read in place of the computed ones. CheckFailed if ONNX Runtime cannot run it.
    """
    known: list[dict[str, Array]] = [dict(each) for each in feeds]
    last = {name: index for index, section in enumerate(sections.sections) for name in section.inputs}

    def outputs(section: Section, later: Container[str]) -> Iterator[Values]:
        session, what = section_session(written, section, tick), f"section {section.name} of {written.file.name}"
        for values, others in zip(known, replaced, strict=True):
            tick()
            fed = {name: np.asarray(values[name], order="C") for name in section.inputs}
            arrays = run_session(session, section.outputs, fed, what, run_options)
            computed = dict(zip(section.outputs, arrays, strict=True))
            read = {name: others.get(name, array) for name, array in computed.items() if name in later}
            values |= {name: in_type(written, name, array) for name, array in read.items()}
            for name in [name for name in values if name not in later]:
                del values[name]
            del fed, arrays, read
            yield computed
            del computed

    for index, section in enumerate(sections.sections):
        yield section, outputs(section, {name for name, reader in last.items() if reader > index})


def in_type(written: WrittenGraph, name: str, array: Array) -> Array:
    """An array of PyTorch in the type of a value."""
    from onnx.helper import tensor_dtype_to_np_dtype

    if name not in written.types:
        return array
    return np.asarray(array.astype(tensor_dtype_to_np_dtype(written.types[name]), copy=False))


@frozen(eq=False)
class SectionedSession:
    """Runs an ONNX file by its sections, by the method of `onnxruntime.InferenceSession` that a measurement calls."""

    written: WrittenGraph
    sections: Sections
    tick: Tick = no_tick

    def run(self, names: Sequence[str], feeds: Values, run_options: Any = None) -> list[Array]:
        """The outputs of these names."""
        outputs_by_name: dict[str, Array] = {}
        for _, [outputs] in run_sections(self.written, self.sections, [feeds], [{}], run_options, self.tick):
            outputs_by_name |= {name: array for name, array in outputs.items() if name in names}
        return [outputs_by_name[name] for name in names]

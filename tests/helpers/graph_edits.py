import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

Model = onnx.ModelProto
Node = onnx.NodeProto

# Reading


def graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from graphs(attribute.g)


def nodes(model: Model, *operators: str) -> list[Node]:
    """The nodes of these operators, or all; those of inner graphs too."""
    every = [node for graph in graphs(model.graph) for node in graph.node]
    return [node for node in every if not operators or node.op_type in operators]


def producer(model: Model, name: str) -> Node | None:
    return next((node for node in nodes(model) if name in node.output), None)


def mask_sum(model: Model, softmax: Node) -> Node | None:
    """The node whose result a softmax reads, or the one before where the scores are bounded: the Add of a mask."""
    node = producer(model, softmax.input[0])
    while node is not None and node.op_type in ("Clip", "Sub"):
        node = producer(model, node.input[0])
    return node


def users(model: Model, name: str, *operators: str) -> list[Node]:
    return [node for node in nodes(model, *operators) if name in node.input]


def initializers(model: Model, *words: str) -> list[str]:
    """The names of the initializers whose name contains one of the words; all without words."""
    every = [tensor.name for graph in graphs(model.graph) for tensor in graph.initializer]
    return [name for name in every if not words or any(word in name for word in words)]


def arrays(model: Model, *words: str) -> list[tuple[str, np.ndarray]]:
    return [(name, constant(model, name)) for name in initializers(model, *words)]


def tensor(model: Model, name: str) -> onnx.TensorProto | None:
    return next((one for graph in graphs(model.graph) for one in graph.initializer if one.name == name), None)


def constant(model: Model, name: str) -> np.ndarray | None:
    """The value of an initializer or of a node Constant; None for a computed value."""
    found = tensor(model, name)
    if found is not None:
        return numpy_helper.to_array(found).copy()
    node = producer(model, name) if name else None
    if node is not None and node.op_type == "Constant" and node.attribute[0].type == onnx.AttributeProto.TENSOR:
        return numpy_helper.to_array(node.attribute[0].t).copy()
    return None


def attribute(node: Node, name: str, default: Any = None) -> Any:
    return next((onnx.helper.get_attribute_value(one) for one in node.attribute if one.name == name), default)


def inputs(model: Model, *words: str) -> list[str]:
    """The names of the inputs that contain one of the words; all without words."""
    return [value.name for value in model.graph.input if not words or any(word in value.name for word in words)]


def outputs(model: Model, *words: str) -> list[str]:
    """The names of the outputs that contain one of the words; all without words."""
    return [value.name for value in model.graph.output if not words or any(word in value.name for word in words)]


def shape_of(value: onnx.ValueInfoProto) -> list[int | str]:
    """The axes of an input or output: sizes and symbols."""
    return [axis.dim_param or axis.dim_value for axis in value.type.tensor_type.shape.dim]


# Editing


def set_constant(model: Model, name: str, value: np.ndarray) -> None:
    found = tensor(model, name)
    assert found is not None, name
    dtype = numpy_helper.to_array(found).dtype
    found.CopyFrom(numpy_helper.from_array(np.asarray(value, dtype, order="C"), name))


def edited_file(file: Path, edit: Callable[[Model], Any], target: Path | None = None) -> Path:
    """Edits an ONNX file in place, or writes it elsewhere as it is after an edit."""
    model = onnx.load(file)
    edit(model)
    onnx.save(model, target or file)
    return target or file


def edited_export(folder: Path, copied: Path, edit: Callable[[Model], Any]) -> Path:
    edited_file(Path(shutil.copytree(folder, copied)) / "model.onnx", edit)
    return copied


def changed_weight(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Model], None]:
    """An edit that gives an initializer another array: a function of its array, which is a copy."""
    return lambda model: set_constant(model, name, change(constant(model, name)))


def change_weights(file: Path, changes: Mapping[str, Callable[[np.ndarray], np.ndarray]]) -> None:
    """Gives initializers of an ONNX file other arrays: a name -> a function of its array, which is a copy."""
    for name, change in changes.items():
        edited_file(file, changed_weight(name, change))


def at(kind: Callable[[Model], Iterator[Any]], end: str) -> Callable[[Model], None]:
    """The edit of a kind of faults at the first site whose name has this end."""
    return lambda model: next(edit for site, edit in kind(model) if site.endswith(end))()


def set_attribute(node: Node, name: str, value: Any) -> None:
    remaining = [one for one in node.attribute if one.name != name]
    del node.attribute[:]
    node.attribute.extend([*remaining, onnx.helper.make_attribute(name, value)])


def new_constant(model: Model, value: Any) -> str:
    name = fresh(model)
    model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    return name


def set_input(model: Model, node: Node, index: int, value: Any) -> None:
    """Gives one input of one node a constant of the same dtype; other nodes that read the old one are left alone."""
    before = constant(model, node.input[index])
    node.input[index] = new_constant(model, np.asarray(value, dtype=None if before is None else before.dtype))


def fresh(model: Model) -> str:
    return f"fault_{len(model.graph.initializer)}_{len(model.graph.node)}"


def insert(model: Model, before: Node | None, operator: str, sources: Iterable[str], **attributes: Any) -> str:
    """Adds a node in front of another one, or at the end; returns the name of its output."""
    name = fresh(model)
    node = onnx.helper.make_node(operator, list(sources), [name], name=name, **attributes)
    owner = next((graph for graph in graphs(model.graph) if before is not None and before in graph.node), model.graph)
    index = list(owner.node).index(before) if before is not None else len(owner.node)
    owner.node.insert(index, node)
    return name


def redirect(model: Model, old: str, new: str, *, only: Iterable[Node] | None = None) -> None:
    """Nodes that read `old` read `new`: all of them, or some. The node that computes `new` is left alone."""
    for node in nodes(model) if only is None else only:
        if new not in node.output:
            node.input[:] = [new if name == old else name for name in node.input]


def after_input(model: Model, name: str, operator: str, *others: str, **attributes: Any) -> None:
    """Every node that read an input reads `operator(input, *others)`; shapes are still read from the input."""
    readers = [node for node in users(model, name) if node.op_type != "Shape"]
    changed = insert(model, model.graph.node[0], operator, [name, *others], **attributes)
    redirect(model, name, changed, only=readers)


def rename_producer(model: Model, output: str) -> str:
    """The value that was an output has a new name, which is returned; another node must compute the output."""
    node = producer(model, output)
    assert node is not None, output
    name = f"{output}__before"
    redirect(model, output, name)
    node.output[:] = [name if one == output else one for one in node.output]
    return name


def after_output(model: Model, output: str, operator: str, *others: str, **attributes: Any) -> None:
    """The output is `operator(what it was, *others)`; nodes inside still read what it was."""
    before = rename_producer(model, output)
    model.graph.node.append(onnx.helper.make_node(operator, [before, *others], [output], **attributes))


def exchange_values(model: Model, left: str, right: str) -> None:
    values = constant(model, left), constant(model, right)
    set_constant(model, left, values[1])
    set_constant(model, right, values[0])


def exchange_inputs(model: Model, left: str, right: str) -> None:
    for node in nodes(model):
        exchanged = {left: right, right: left}
        node.input[:] = [exchanged.get(name, name) for name in node.input]


def exchange_outputs(model: Model, left: str, right: str) -> None:
    before = rename_producer(model, left), rename_producer(model, right)
    for output, source in ((left, before[1]), (right, before[0])):
        model.graph.node.append(onnx.helper.make_node("Identity", [source], [output]))

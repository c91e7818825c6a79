"""The float form of a quantized file: the same graph on the same stored weights, whose products are those of floats.

Where a file quantizes activations, its outputs differ from those of its weights by more than rounding. And the kernel
of MatMulNBits rounds by 10 to 17 unit roundoffs where PyTorch has 2 to 7. In the float form these products read the
weights as numbers, and floats of 16 bits are float32: no operator rounds. So the rest of the graph is compared with
PyTorch in float32; for rounded constants two unit roundoffs of 16 bits are allowed. Products of integers have exactly
the neighbours that onnxfn writes, or they are findings; the kernels of the file are measured on a text or in the cases.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from attrs import field, frozen

from onnxfn.check.cuts.vertices import read_names
from onnxfn.graphs.nodes.nodes import DOMAIN
from onnxfn.run.sessions import IN_PLACE_BYTES
from onnxfn.weights.onnx_files import graph_nodes, parsed_model, with_inner_graphs, with_weights_in_place

OF_INTEGERS: Mapping[str, str] = MappingProxyType({"MatMulInteger": "MatMul", "ConvInteger": "Conv"})
"""An operator on integers -> the operator on floats."""

FROM_CODES = "DequantizeLinear"
"""The operator from codes to floats, of weights and of activations that a QuantizeLinear computes."""

OF_BLOCKS, ZERO_POINTS, EXPERTS = "MatMulNBits", 3, "QMoE"
"""The operators on weights in blocks; inputs of the first: activations, codes, scales, and maybe zero points."""

HALVES: Mapping[str, int] = MappingProxyType({"float16": 10, "bfloat16": 16})
"""The float dtypes of 16 bits, and the numbers that ONNX has for them."""

OWN_DOMAIN = "onnxfn.bodies"
"""A domain without kernels."""

Group = tuple[Any, str, str, str]
"""The node that multiplies quantized activations with integers, and the names of source, scales and result."""


def float_form(
    file: Path, dtype: str | None = None, in_memory: Mapping[str, Sequence[int]] = MappingProxyType({})
) -> tuple[bytes | None, tuple[str, ...]]:
    """The float form of a file, None if the file has it; and a line for each product of integers of another form."""
    # `in_memory`: from codes in blocks to the shape of their float32 elements, an external initializer.
    from onnx import TensorProto

    replaced = {*OF_INTEGERS, OF_BLOCKS, FROM_CODES, EXPERTS}
    if dtype not in HALVES and replaced.isdisjoint(node.op_type for node in graph_nodes(file)):
        return None, ()
    model = _with_called_bodies(file, (EXPERTS,))
    for codes, shape in in_memory.items():
        tensor = model.graph.initializer.add(name=name_in_memory(codes), dims=shape, data_type=TensorProto.FLOAT)
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="memory")
    return _in_float_products(model, dtype, {*in_memory})


def body_form(file: Path, dtype: str | None = None) -> bytes:
    """The float form of a file whose bodies of operators, also of those in blocks, a domain without kernels calls."""
    return _in_float_products(_with_called_bodies(file), dtype, ())[0]


def _in_float_products(model: Any, dtype: str | None, in_memory: Collection[str]) -> tuple[bytes, tuple[str, ...]]:
    casts = [node for inner in with_inner_graphs(model.graph) for node in inner.node if node.op_type == "Cast"]
    types = {node.output[0]: attribute.i for node in casts for attribute in node.attribute if attribute.name == "to"}
    types |= {each.name: each.data_type for each in model.graph.initializer}
    outer = Outer(model.graph, types, in_memory, {each.name: len(each.dims) for each in model.graph.initializer})
    findings = [line for graph in [*with_inner_graphs(model.graph)][::-1] for line in _compute_in_floats(graph, outer)]
    if dtype in HALVES:
        _widen(model.graph)
    return bytes(model.SerializeToString()), tuple(findings)


def _with_called_bodies(file: Path, names: Collection[str] = ()) -> Any:
    """A file as a model whose bodies of operators, of these names or all, are called by a domain without kernels."""
    model = parsed_model(with_weights_in_place(file, IN_PLACE_BYTES))
    bodies = [each for each in model.functions if not names or each.name in names]
    called = {(each.name, each.overload) for each in bodies}
    nodes = [node for graph in with_inner_graphs(model.graph) for node in graph.node if node.domain == DOMAIN]
    for each in (*bodies, *(node for node in nodes if (node.op_type, node.overload) in called)):
        each.domain = OWN_DOMAIN
    model.opset_import.add(domain=OWN_DOMAIN, version=1)
    return model


def name_in_memory(codes: str) -> str:
    """The name of the elements that codes stand for, where these are in memory."""
    return f"{codes}_as_floats"


@frozen(eq=False)
class Outer:
    """The outer graph, which gets the constants: the types of values, the codes in memory, the initializers' ranks."""

    graph: Any
    types: Mapping[str, int]
    in_memory: Collection[str]
    ranks: Mapping[str, int]

    def constant(self, array: Any) -> str:
        """The name of a new constant."""
        from onnx import numpy_helper

        name = f"float_form_{len(self.graph.initializer)}"
        self.graph.initializer.append(numpy_helper.from_array(array, name))
        return name


def _widen(outer: Any) -> None:
    """Makes the floats of 16 bits of a graph float32, but its inputs and stored weights: a Cast reads each of these."""
    from onnx import TensorProto, helper

    wide: dict[str, str] = {}
    for graph in with_inner_graphs(outer):  # what an inner graph reads is known before it
        ports = [(each.name, each.type.tensor_type.elem_type) for each in graph.input] if graph is outer else []
        stored = [*ports, *((each.name, each.data_type) for each in graph.initializer)]
        read = dict.fromkeys(name for name, dtype in stored if dtype in HALVES.values())  # an input may have a default
        wide.update({name: f"{name}_in_float32" for name in read})
        for node in graph.node:
            _widen_node(node, wide)
        casts = [helper.make_node("Cast", [name], [wide[name]], to=TensorProto.FLOAT) for name in read]
        nodes = [*casts, *graph.node]
        del graph.node[:]
        graph.node.extend(nodes)
        for value in (*graph.output, *graph.value_info, *([] if graph is outer else graph.input)):
            if value.type.tensor_type.elem_type in HALVES.values() and value.name not in wide:
                value.type.tensor_type.elem_type = TensorProto.FLOAT


def _widen_node(node: Any, wide: Mapping[str, str]) -> None:
    """Lets a node read the float32 values of these names; types and constants among its attributes become float32."""
    from onnx import TensorProto, numpy_helper

    node.input[:] = [wide.get(name, name) for name in node.input]
    for attribute in node.attribute:
        if attribute.name in ("to", "dtype", "output_dtype") and attribute.i in HALVES.values():
            attribute.i = TensorProto.FLOAT
        if attribute.HasField("t") and attribute.t.data_type in HALVES.values():
            values = numpy_helper.to_array(attribute.t).astype(np.float32)
            attribute.t.CopyFrom(numpy_helper.from_array(values, attribute.t.name))


def _compute_in_floats(graph: Any, outer: Outer) -> Iterator[str]:
    """Replaces the products of a graph; yields a line for each product of integers that is in no group."""
    producers = {name: node for node in graph.node for name in node.output}
    readers: dict[str, list[Any]] = {}
    for node in graph.node:
        for name in {*read_names(node)}:
            readers.setdefault(name, []).append(node)
    groups: dict[str, Group] = {}
    for product in [node for node in graph.node if node.op_type in OF_INTEGERS]:
        group = _group(product, producers, readers)
        if group is None:
            yield f"{product.output[0]!r} is computed by a {product.op_type} whose neighbours are not those of onnxfn"
        else:
            groups[group[-1]] = group
    nodes = [new for node in graph.node for new in _in_floats(node, groups, producers, outer)]
    needed, remaining = {output.name for output in graph.output}, list[Any]()
    for node in reversed(nodes):  # what only a product of integers read has no readers now
        if not needed.isdisjoint(node.output):
            needed.update(read_names(node))
            remaining.append(node)
    del graph.node[:]
    graph.node.extend(reversed(remaining))


Readers = Mapping[str, list[Any]]
"""From the name of a value to the nodes that read it."""


def _in_floats(node: Any, groups: Mapping[str, Group], producers: Mapping[str, Any], outer: Outer) -> Sequence[Any]:
    """The nodes in place of a node: the last one of a group becomes a product, and so does one of blocks."""
    group = groups.get(node.output[0])
    if group is not None:
        # ONNX Runtime would optimize DequantizeLinear to a kernel of integers.
        (product, source, scales, output), new = group, Nodes(f"{node.output[0]}_of", outer)
        codes, zero = (new("Cast", product.input[index], to=outer.types[scales]) for index in (1, ZERO_POINTS))
        new(OF_INTEGERS[product.op_type], source, new("Mul", new("Sub", codes, zero), scales))
        return _with_output(new, product.attribute, output)
    if node.op_type == FROM_CODES:
        return _dequantized(node, producers.get(node.input[0]), outer)
    is_known = (node.op_type, node.domain) == (OF_BLOCKS, DOMAIN) and not any(node.input[ZERO_POINTS + 1 :])
    return _product_of_blocks(node, outer) if is_known else [node]


def _dequantized(node: Any, quantizer: Any, outer: Outer) -> Sequence[Any]:
    """The nodes in place of a DequantizeLinear: codes of a weight are multiplied; activations are as before."""
    new, (codes, scales, *zero) = Nodes(f"{node.output[0]}_of", outer), node.input
    if codes in outer.ranks and scales in outer.types:
        axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 1)
        sizes = [-1, *[1] * (outer.ranks[codes] - axis - 1)] if outer.ranks[scales] else [1]
        numbers, *points = (new("Cast", name, to=outer.types[scales]) for name in (codes, *zero))
        steps, *points = (new("Reshape", name, sizes) for name in (scales, *points))
        new("Mul", new("Sub", numbers, *points) if points else numbers, steps)
    elif quantizer is not None and [*quantizer.input[1:]] == [scales, *zero]:
        new("Identity", quantizer.input[0])
    else:
        return [node]
    return _with_output(new, (), node.output[0])


@frozen(eq=False)
class Nodes:
    """New nodes in order. `name` begins the names of their outputs."""

    name: str
    outer: Outer
    nodes: list[Any] = field(factory=list)

    def __call__(self, operator: str, *inputs: Any, **attributes: Any) -> str:
        """The output of a new node; an input is the name of a value, or integers that become a constant."""
        from onnx import helper

        names = [each if isinstance(each, str) else self.outer.constant(np.array(each)) for each in inputs]
        output = f"{self.name}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, names, [output], **attributes))
        return output


def _product_of_blocks(node: Any, outer: Outer) -> Sequence[Any]:
    """The product of a MatMulNBits in floats: all rows of its weight are looked up, in the memory of one weight."""
    source, codes, *parameters = (name for name in node.input if name)
    facts = {attribute.name: attribute.i for attribute in node.attribute}
    rows, columns, bits, block = (facts[name] for name in ("N", "K", "bits", "block_size"))
    blocks, new = -(-columns // block), Nodes(f"{node.output[0]}_of", outer)
    weight = name_in_memory(codes)
    if codes not in outer.in_memory:
        flat = [new("Reshape", name, [rows, -1]) for name in (codes, *parameters)]
        attributes = {"bits": bits, "block_size": block, "gather_axis": 0, "quantize_axis": 1}
        weight = new("GatherBlockQuantized", flat[0], range(rows), *flat[1:], domain=DOMAIN, **attributes)
        weight = weight if columns == blocks * block else new("Slice", weight, [0], [columns], [1])
    new("FusedMatMul", source, weight, domain=DOMAIN, transB=1)
    return _with_output(new, (), node.output[0])


def _with_output(new: Nodes, attributes: Sequence[Any], output: str) -> Sequence[Any]:
    """The new nodes; the last one has these attributes more, and this output."""
    new.nodes[-1].attribute.extend(attributes)
    new.nodes[-1].output[:] = [output]
    return new.nodes


def _group(product: Any, producers: Mapping[str, Any], readers: Readers) -> Group | None:
    """The group of a product of integers, as `quantized_operators.py` writes it; None for another form."""
    quantizer = producers.get(product.input[0])
    if quantizer is None or quantizer.op_type != "DynamicQuantizeLinear":
        return None
    codes, scale, zero = quantizer.output
    cast = _only_reader(product, readers, "Cast")
    scaled = None if cast is None else _only_reader(cast, readers, "Mul")
    if scaled is None or [product.input[0], *product.input[2:3]] != [codes, zero]:
        return None
    factor = producers.get(next((name for name in scaled.input if name != cast.output[0]), ""))
    if factor is None or factor.op_type != "Mul" or scale not in factor.input:
        return None
    scales = next((name for name in factor.input if name != scale), "")
    return (product, quantizer.input[0], scales, scaled.output[0]) if scales not in producers else None


def _only_reader(node: Any, readers: Readers, operator: str) -> Any:
    """The only node that reads the output of a node, if it has this operator; None else."""
    nodes = readers.get(node.output[0], [])
    return nodes[0] if len(nodes) == 1 and nodes[0].op_type == operator else None

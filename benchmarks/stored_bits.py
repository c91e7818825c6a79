"""What an ONNX file stores its matrices, its output layer and its table of embeddings in, as read from its nodes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from onnx.helper import get_attribute_value

from onnxfn.weights.onnx_files import graph_nodes, stored_tensors

PRODUCTS = ("MatMulNBits", "MatMulBnb4", "MatMulInteger")
"""The operators that multiply with codes."""

CODES_RANK, BLOCK = 3, 32
"""The axes of codes that a Gather reads: rows, blocks, bytes of a block; and the elements of a block."""


def stored_bits(file: Path, tokens: int) -> dict[str, str]:
    """What the matrices, the output layer and the embedding of a decoder's file are stored in; most common first.

    Only an output layer has as many rows as there are tokens.
    """
    nodes = graph_nodes(file)
    products = [node for node in nodes if node.op_type in PRODUCTS]
    head = [node for node in products if _attributes(node).get("N") == tokens]
    tables = [node for node in nodes if node.op_type == "GatherBlockQuantized"]
    groups = {"matrices": [node for node in products if node not in head], "output layer": head, "embedding": tables}
    described = {name: _described(group) for name, group in groups.items()}
    shapes = {tensor.name: tensor.shape for tensor in stored_tensors(file)}
    tables = [shapes.get(node.input[0], ()) for node in nodes if node.op_type == "Gather"]
    codes = [shape for shape in tables if len(shape) == CODES_RANK]
    return {**described, "embedding": f"{codes[0][-1] * 8 // BLOCK} bits"} if codes else described


def _described(nodes: list[Any]) -> str:
    kinds = Counter(map(_kind, nodes))
    return ", ".join(kind for kind, _ in kinds.most_common()) or "float"


def _kind(node: Any) -> str:
    """The storage that a node reads.

    >>> from onnx.helper import make_node
    >>> _kind(make_node("MatMulNBits", ["x", "w", "s", "z"], ["y"], bits=4, block_size=32, accuracy_level=4))
    '4 bits, zero points, level 4'
    """
    if node.op_type == "MatMulInteger":
        return "int8, dynamic"
    facts = _attributes(node)
    words = [f"{facts.get('bits', 4)} bits" if node.op_type != "MatMulBnb4" else "NF4"]
    words += ["zero points"] if len(node.input) > 3 and node.input[3] else []
    words += [f"level {facts['accuracy_level']}"] if facts.get("accuracy_level") else []
    return ", ".join(words)


def _attributes(node: Any) -> dict[str, Any]:
    return {each.name: get_attribute_value(each) for each in node.attribute if not each.HasField("g")}

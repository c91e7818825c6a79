"""The kinds of the layers of a graph: layers of one kind compute the same function of their weights and inputs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable
from itertools import chain, zip_longest
from typing import Any

from onnxfn.check.cuts.cut import Section, Sections
from onnxfn.check.cuts.runs import WrittenGraph
from onnxfn.check.cuts.vertices import read_names
from onnxfn.graphs.passes.merging import PREFIX

OF_EACH_KIND, MOST_LAYERS = 2, 8
"""How many layers of a kind are chosen, and how many in all: layers that all differ would be the whole model."""


def layers_of_each_kind(
    written: WrittenGraph, sections: Sections, layers: Collection[str], of_layers: Collection[str]
) -> tuple[int, ...]:
    """The indices of the first layers of each kind, in their order. `of_layers` are the inputs of single layers."""
    kinds: dict[Hashable, list[int]] = defaultdict(list)
    by_name = {section.name: section for section in sections.sections}
    for index, path in enumerate(layers):
        kinds[_kind(written, by_name[path], {*sections.hidden}, of_layers)].append(index)
    chosen = chain(*zip_longest(*(members[:OF_EACH_KIND] for members in kinds.values())))
    return tuple(sorted([index for index in chosen if index is not None][:MOST_LAYERS]))


def _kind(
    written: WrittenGraph, section: Section, hidden: Collection[str], of_layers: Collection[str]
) -> tuple[Hashable, ...]:
    """The nodes of a layer, with names that layers of one kind share: constants and shared values keep their own."""
    numbers: dict[str, int] = {}

    def shared_name(name: str) -> Hashable:
        if name in hidden:
            return "hidden states"
        weight = written.initializers.get(name)
        if weight is not None:
            return _weight(weight, section.name)
        is_own = name in own or name in of_layers
        return numbers.setdefault(name, len(numbers)) if is_own else name

    nodes = [written.model.graph.node[index] for index in section.nodes]
    own = {name for node in nodes for name in node.output}
    return tuple((_operator(node), *map(shared_name, (*read_names(node), *node.output))) for node in nodes)


def _weight(weight: Any, layer: str) -> Hashable:
    """The name of a weight inside its layer, its shape and its type; the content of a constant."""
    name = weight.name.removeprefix(PREFIX)
    if name.startswith(f"{layer}."):
        return name.removeprefix(layer), tuple(weight.dims), weight.data_type
    content = type(weight).FromString(weight.SerializeToString())
    content.ClearField("name")
    constant: bytes = content.SerializeToString()
    return constant


def _operator(node: Any) -> Hashable:
    """The operator of a node and its attributes; a branch or a loop by its operators."""
    bodies = (body for attribute in node.attribute for body in (attribute.g, *attribute.graphs))
    inner = tuple(each.op_type for body in bodies for each in body.node)
    plain = tuple(each.SerializeToString() for each in node.attribute if not (each.graphs or each.HasField("g")))
    return node.domain, node.op_type, tuple(sorted(plain)), inner

"""The layers of a model, and the sections of its graph: embedding, layers, head, and `shared`, what several read.

The hidden states of layer `i` are the value through which all paths lead from the weights of layer `i - 1` to those of
layer `i`. Masks, angles and sizes do not count: they do not depend on weights of layers. Without such a value, the
layers do not form a chain, and the graph has no sections.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from attrs import frozen
from toolz import groupby

from onnxfn.check.cuts.vertices import OUTSIDE, Vertex, vertices_of
from onnxfn.specs.errors import InvalidSpec, listed
from onnxfn.specs.stored.reports import CheckFailed

SHARED, EMBEDDING, HEAD = "shared", "embedding", "head"
"""The names of the other sections. `shared` has the nodes that several sections read, such as masks and angles."""

SHARED_LEVEL, EMBEDDING_LEVEL = -2, -1
"""The numbers of these sections; a layer has its index, the head the number of layers."""

CHECK_WHOLE = "check the whole graph: --check whole, or check='whole'"

Fits = Callable[[str, int], bool]
"""Whether a value of the graph may be the hidden states that go into a layer of this index, by its shape."""


@frozen
class Section:
    """A part of a graph that runs by itself: `shared`, `embedding`, the path of a layer, or `head`."""

    name: str
    nodes: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@frozen
class Sections:
    """The sections of a graph in an order in which they run; and the hidden states, before each layer and after all."""

    sections: tuple[Section, ...]
    hidden: tuple[str, ...]


def graph_sections(
    graph: Any, layers: Sequence[str], parameters: Iterable[str], of_layers: Collection[str], fits: Fits
) -> Sections:
    """The sections of a graph by the paths of layers, and the ports `of_layers`. InvalidSpec if they form no chain."""
    vertices = vertices_of(graph, layers, parameters, of_layers)
    outputs = {output.name for output in graph.output} - {*of_layers}
    ends = {index for index, each in enumerate(vertices) if outputs & {*each.outputs}}
    inner = [_hidden_before(vertices, layers, layer, ends, fits) for layer in range(1, len(layers))]
    after = _hidden_after_all(vertices, layers, inner[-1], ends, fits)
    hidden = (_hidden_before_all(vertices, layers, inner[0], ends, fits), *inner, after)
    sections = Sections(_sections(graph, vertices, layers, _section_numbers(vertices, layers, hidden)), hidden)
    check_coverage(graph, sections)
    return sections


def check_coverage(graph: Any, sections: Sections) -> None:
    """Raises CheckFailed unless each node of a graph lies in exactly one section, and each output comes from one."""
    counts = Counter(index for section in sections.sections for index in section.nodes)
    computed = Counter(name for section in sections.sections for name in section.outputs)
    ports = {value.name for value in (*graph.input, *graph.initializer)}
    wrong = [
        *(f"node {index} ({node.op_type})" for index, node in enumerate(graph.node) if counts[index] != 1),
        *(f"output {each.name!r}" for each in graph.output if computed[each.name] != 1 and each.name not in ports),
    ]
    if wrong:
        raise CheckFailed(f"the sections are not the whole graph: {listed(wrong)} in none or in several of them")


def _hidden_before(vertices: Sequence[Vertex], layers: Sequence[str], layer: int, ends: set[int], fits: Fits) -> str:
    """The hidden states between a layer and the one before."""
    sources = _sources(vertices, layer - 1)
    reached = _descendants(vertices, sources)
    sinks = {index for index in reached if layer in vertices[index].reads}
    return _fitting(_on_all_paths(vertices, sources, reached, sinks, ends), layers, layer, fits)[-1]


def _hidden_after_all(
    vertices: Sequence[Vertex], layers: Sequence[str], before: str, ends: set[int], fits: Fits
) -> str:
    """The hidden states that go to the head: from the same operator as those before the last layer, if there is one."""
    readers = {index for index, each in enumerate(vertices) if before in each.data}
    sources = _sources(vertices, len(layers) - 1) | readers
    reached = _descendants(vertices, sources)
    sinks = {index for index in reached - _ancestors(vertices, sources) if OUTSIDE in vertices[index].reads}
    values = _fitting(_on_all_paths(vertices, sources, reached, sinks, ends), layers, len(layers), fits)
    operators = {name: each.operator for each in vertices for name in each.outputs}
    # After the last layer no residual bypasses a norm: its output without its weights is also a candidate.
    return next((value for value in reversed(values) if operators[value] == operators[before]), values[0])


def _hidden_before_all(
    vertices: Sequence[Vertex], layers: Sequence[str], after: str, ends: set[int], fits: Fits
) -> str:
    """The hidden states before the first layer: the last value on all paths to the weights of that layer."""
    # The paths start at values that reach later layers only through the first. A value on all paths to the outputs is
    # preferred. Some models have none: the mean and the deviation of a series bypass the layers.
    sinks = {index for index, each in enumerate(vertices) if 0 in each.reads}
    later = {index for index, each in enumerate(vertices) if any(layer > 0 for layer in each.reads)}
    elsewhere = _ancestors(vertices, later, without=after)
    only = _ancestors(vertices, sinks) - elsewhere - _descendants(vertices, sinks)
    sources = only & _starts(vertices)
    reached = _descendants(vertices, sources)
    values = [value for value in _on_all_paths(vertices, sources, reached, sinks & reached, ends) if fits(value, 0)]
    values = values or _fitting(_on_all_paths(vertices, sources, reached, sinks & reached, set()), layers, 0, fits)
    return values[-1]


def _sources(vertices: Sequence[Vertex], layer: int) -> set[int]:
    """The vertices that read the weights of a layer and depend on hidden states."""
    # Without a table of positions among the weights of the first layer: all layers read it.
    return {index for index in _descendants(vertices, _starts(vertices)) if layer in vertices[index].reads}


def _starts(vertices: Sequence[Vertex]) -> set[int]:
    """The vertices where hidden states may start: readers of weights outside the layers, and float inputs."""
    return {index for index, each in enumerate(vertices) if OUTSIDE in each.reads or each.is_float_input}


def _fitting(values: Iterable[str], layers: Sequence[str], layer: int, fits: Fits) -> list[str]:
    fitting = [value for value in values if fits(value, layer)]
    if not fitting:
        where = f"into {layers[layer]}" if layer < len(layers) else f"out of {layers[-1]}"
        raise InvalidSpec(
            f"cannot check by sections: no single value leads the hidden states {where}, so the layers of "
            f"{layers[0].rpartition('.')[0] or 'the model'} do not form a chain; {CHECK_WHOLE}"
        )
    return fitting


def _on_all_paths(
    vertices: Sequence[Vertex], sources: set[int], reached: set[int], sinks: set[int], ends: set[int]
) -> Iterator[str]:
    """The values through which all paths lead from sources to sinks, and out of the ends, in the order of the graph."""
    between = sorted(reached & _ancestors(vertices, sinks | ends))
    readers = {name: index for index in between for name in vertices[index].data}  # the last reader of each value
    start = max(sources & {*between}, default=len(vertices))
    stop = min((*sinks, *(end + 1 for end in ends & reached)), default=0)
    # In topological order. All paths lead through a vertex if no edge leads from before it to after it.
    farthest = -1
    for index in between:
        outputs = vertices[index].outputs
        used = [name for name in outputs if name in readers] or outputs
        if start <= index < stop and farthest <= index and len(used) == 1:
            yield used[0]
        farthest = max(farthest, *(readers[name] for name in used if name in readers), -1)


def _descendants(vertices: Sequence[Vertex], sources: set[int]) -> set[int]:
    """The sources, and all vertices that are computed from them."""
    reached, values = set[int](), set[str]()
    for index, each in enumerate(vertices):
        if index in sources or not values.isdisjoint(each.data):
            reached.add(index)
            values.update(each.outputs)
    return reached


def _ancestors(vertices: Sequence[Vertex], ends: set[int], without: str = "") -> set[int]:
    """The ends, and all vertices that they are computed from, not counting paths through the value `without`."""
    ancestors, values = set[int](), set[str]()
    for index in reversed(range(len(vertices))):
        if index in ends or not values.isdisjoint(vertices[index].outputs):
            ancestors.add(index)
            values.update(vertices[index].data)
            values.discard(without)
    return ancestors


def _section_numbers(vertices: Sequence[Vertex], layers: Sequence[str], hidden: Sequence[str]) -> list[int]:
    """The number of the section of each vertex."""
    # A vertex that depends on hidden states lies in the section of the last hidden states that it reads. Any other
    # vertex lies in the section that reads it, or in `shared` if several sections do.
    starts = {name: level for level, name in enumerate(hidden)}
    levels = _levels(vertices, starts)
    _check_weights(vertices, layers, levels)
    numbers: list[int] = [*levels]
    readers: dict[str, set[int]] = {}
    for index in reversed(range(len(vertices))):
        each = vertices[index]
        if levels[index] < 0:
            own = {layer for layer in each.reads if layer >= 0}
            by = set().union(*(readers.get(name, set()) for name in each.outputs)) or own
            is_start = hidden[0] in each.outputs
            numbers[index] = EMBEDDING_LEVEL if is_start else by.pop() if len(by) == 1 else SHARED_LEVEL
        for name in each.inputs:
            readers.setdefault(name, set()).add(numbers[index])
    return numbers


def _levels(vertices: Sequence[Vertex], starts: Mapping[str, int]) -> list[int]:
    """For each vertex the index of the last hidden states that it is computed from; -1 if from none."""
    levels, of_values = list[int](), dict[str, int]()
    for each in vertices:
        levels.append(max((starts.get(name, of_values.get(name, -1)) for name in each.inputs), default=-1))
        of_values |= dict.fromkeys(each.outputs, levels[-1])
    return levels


def _check_weights(vertices: Sequence[Vertex], layers: Sequence[str], levels: Sequence[int]) -> None:
    """Raises InvalidSpec if the weights of a layer are read from other hidden states than its own."""
    for each, level in zip(vertices, levels, strict=True):
        strange = next((layer for layer in each.reads if layer >= 0 <= level != layer), None)
        if strange is not None:
            raise InvalidSpec(
                f"the graph has no sections: node {each.node} ({each.operator}) reads weights of {layers[strange]} and "
                f"hidden states of another layer; {CHECK_WHOLE}"
            )


def _sections(
    graph: Any, vertices: Sequence[Vertex], layers: Sequence[str], numbers: Sequence[int]
) -> tuple[Section, ...]:
    names = {SHARED_LEVEL: SHARED, EMBEDDING_LEVEL: EMBEDDING, **dict(enumerate((*layers, HEAD)))}
    nodes = [(each, number) for each, number in zip(vertices, numbers, strict=True) if each.node is not None]
    members = groupby(itemgetter(1), nodes)
    section_of = {name: number for each, number in nodes for name in each.outputs}
    outside = {output.name for output in graph.output}
    outside |= {name for each, number in nodes for name in each.inputs if section_of.get(name) != number}

    def section(number: int) -> Section:
        own = [each for each, _ in members[number]]
        reads = dict.fromkeys(name for each in own for name in each.inputs)
        return Section(
            names[number],
            tuple(each.node for each in own if each.node is not None),
            tuple(name for name in reads if section_of.get(name) != number),
            tuple(name for each in own for name in each.outputs if name in outside),
        )

    return tuple(section(number) for number in names if number in members)


def layer_paths(model: Any, weights: Collection[str]) -> tuple[str, ...]:
    """The paths of a model's layers with `weights`: its largest list of modules. InvalidSpec if there is none."""
    import torch

    lists = [
        (sum(weight.numel() for weight in module.parameters()), path, len(module))
        for path, module in model.named_modules()
        if type(module) in (torch.nn.ModuleList, torch.nn.Sequential) and len(module) > 1
    ]
    for _, path, length in sorted(lists, key=lambda each: -each[0]):
        paths = tuple(f"{path}.{index}".removeprefix(".") for index in range(length))
        if all(any(name.startswith(f"{each}.") for name in weights) for each in paths):
            return paths
    raise InvalidSpec(f"{type(model).__name__} has no list of layers with weights in this graph; {CHECK_WHOLE}")


def fits_shapes(graph: Any, shapes: Iterable[tuple[int, ...]], sizes: Mapping[str, int]) -> Fits:
    """Whether a value may have one of the shapes of hidden states, as far as shapes and sizes of symbols are known."""
    axes = {value.name: value.type.tensor_type for value in (*graph.value_info, *graph.input, *graph.output)}
    expected = tuple(shapes)

    def fits(name: str, layer: int) -> bool:
        if name not in axes or not axes[name].HasField("shape"):
            return True
        dims = axes[name].shape.dim
        known = [dim.dim_value if dim.HasField("dim_value") else sizes.get(dim.dim_param) for dim in dims]
        shape = expected[layer]
        return len(known) == len(shape) and all(own in (None, size) for own, size in zip(known, shape, strict=True))

    return fits

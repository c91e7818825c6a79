"""Build: a model and a part of the plan -> the finished graph of the part, its weights bound."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from onnxfn.graphs.cache_folder import MAX_CACHE_BYTES
from onnxfn.graphs.capture.capture import LIMITS, capture, parameter_names
from onnxfn.graphs.capture.expected_operators import EXPECTED_OPERATORS, expected_of_all_layers
from onnxfn.graphs.capture.quiet import LOCK, quiet
from onnxfn.graphs.capture.repeated_layers import LayerStack, repeated_layers, truncated
from onnxfn.graphs.fingerprints import fingerprint
from onnxfn.graphs.passes.fusing import ONNXRUNTIME, STANDARD, fuse_operators, fusions
from onnxfn.graphs.passes.merging import insert_filler
from onnxfn.graphs.passes.naming import add_metadata, name_ports, order_ports, strip_metadata
from onnxfn.graphs.passes.opsets import convert_opset
from onnxfn.graphs.passes.packing import pack_matmuls
from onnxfn.graphs.passes.repeat_layers import layer_ports, repeat_layers
from onnxfn.graphs.passes.simplify import simplify
from onnxfn.graphs.passes.size_reads import share_size_reads
from onnxfn.graphs.passes.slots import bind_weights, merge_slots, pretranspose, to_slots
from onnxfn.graphs.template_cache import delete_template, load_template, save_template
from onnxfn.specs.errors import CaptureFailed, LayersDiffer
from onnxfn.specs.planned import Part
from onnxfn.specs.reports import StageTimer

FindRepeats = Callable[[Any], tuple[LayerStack, ...]]
"""From a model to its layers that are all alike."""

TRACED_LAYERS = "onnxfn.traced_layers"
"""Where a graph's `meta` says of which layers it was made, or why all were traced."""

FROM_REPEATS = "onnxfn.from_repeats"
"""Where a graph's `meta` says whether it was made of fewer layers than it has."""

TEMPLATE_NAME = "onnxfn.template_name"
"""Where the `meta` of a graph that is kept in a folder of templates says under which name."""


def trace_all_layers(_: Any) -> tuple[LayerStack, ...]:
    """No layers that are alike: all are traced."""
    return ()


@frozen(kw_only=True)
class BuildOptions:
    """How the graph of a part is built from a model.

    Attributes:
        find_repeats: Function from a model to its stacks of repeated layers. Of each stack a few layers are traced,
            and the graph repeats them. `trace_all_layers` finds none, so that every layer is traced. The graph is the
            same either way; only the time differs.
        template_cache: Folder where graphs are saved without weights, and loaded from for the next model that differs
            in weight values alone. None saves and loads nothing.
        template_cache_bytes: Bytes that the files of `template_cache` may have together. The least recently used files
            are deleted when there are more.
        pretranspose: Whether weights that a graph transposes are stored transposed. False stores them as the checkpoint
            does, so that a file can be linked to it.
        fuse: Operators that may replace several: `"standard"` uses those of ONNX, `"onnxruntime"` also those that only
            ONNX Runtime has.

    Example:
        >>> BuildOptions(fuse="onnxruntime").pretranspose
        True
    """

    find_repeats: FindRepeats = repeated_layers
    template_cache: Path | None = None
    template_cache_bytes: int = MAX_CACHE_BYTES
    pretranspose: bool = True
    fuse: str = STANDARD


def build_graph(model: Any, part: Part, timed: StageTimer, options: BuildOptions) -> Any:
    """The graph of a part, with its filler inside; its weights look at the model's own, and are not copies.

    The model is in the part's float type. A graph that is kept for models like this is taken from where it is kept, or
    else put there.
    """
    with LOCK:
        name, graph = (
            _from_template(model, part, timed, options) if options.template_cache is not None else (None, None)
        )
        if graph is None:
            graph = _with_filler(model, part, timed, options)
            save_template(options.template_cache, name, graph, options.template_cache_bytes)
        graph.meta[TEMPLATE_NAME] = name
        return bind_weights(graph, model.state_dict(keep_vars=True).__getitem__)


def _from_template(model: Any, part: Part, timed: StageTimer, options: BuildOptions) -> tuple[str | None, Any]:
    """The name under which the graph is kept, and the graph if it is."""
    with timed("template", part.name):
        name = template_name(model, part, options)
        return name, load_template(options.template_cache, name)


def template_name(model: Any, part: Part, options: BuildOptions) -> str | None:
    """The name under which the graph of a part is kept; None when nobody can tell what it depends on."""
    return fingerprint(model, part, options.pretranspose, options.fuse)


def drop_templates(options: BuildOptions, graphs: Iterable[Any]) -> None:
    """Let nobody take the templates of these graphs again."""
    for graph in graphs:
        delete_template(options.template_cache, graph.meta[TEMPLATE_NAME])


def _with_filler(model: Any, part: Part, timed: StageTimer, options: BuildOptions) -> Any:
    graph = graph_with_slots(model, part, timed, options)
    for filler in part.filler:
        fills = {feedback.output: feedback.input for feedback in part.spec.feedback}
        graph = merge_slots(insert_filler(graph, graph_with_slots(model, filler, timed, options), fills))
    return pack_matmuls(graph) if options.pretranspose and options.fuse == ONNXRUNTIME else graph


def traced_fully(graph: Any) -> bool:
    """Whether a graph was traced of the model itself, with all its layers."""
    return graph.meta[TEMPLATE_NAME] is None and not graph.meta[FROM_REPEATS]


def graph_with_slots(model: Any, part: Part, timed: StageTimer, options: BuildOptions) -> Any:
    """The graph of a part, its parameters slots: of a few layers where these prove the others, else of all."""
    found = options.find_repeats(model)
    keeping = _cache_stack(part, found)
    why = ""
    if found and keeping is not None:
        try:
            return _from_repeats(model, part, timed, options, found, keeping)
        except (LayersDiffer, CaptureFailed) as problem:
            why = str(problem)
    graph = _from_trace(model, part, timed, options)
    graph.meta[FROM_REPEATS] = False
    graph.meta[TRACED_LAYERS] = f"every layer traced: {why}" if why else ""
    return graph


def _from_repeats(
    model: Any, part: Part, timed: StageTimer, options: BuildOptions, found: Sequence[LayerStack], keeping: LayerStack
) -> Any:
    few = _truncated_part(part, keeping)
    with truncated(model, found):
        graph = _from_trace(model, few, timed, options)
    with timed("passes", part.name):
        for stack in found:
            own = stack is keeping
            graph = repeat_layers(graph, stack, layer_ports(few) if own else {}, layer_ports(part) if own else {})
            graph.meta[EXPECTED_OPERATORS] = expected_of_all_layers(graph.meta[EXPECTED_OPERATORS], stack)
        graph = order_ports(graph, part)
    graph.meta[FROM_REPEATS] = True
    graph.meta[TRACED_LAYERS] = ", ".join(
        f"{one.layers} layers of {one.path} from {one.traced_layers}" for one in found
    )
    return graph


def _cache_stack(part: Part, found: Sequence[LayerStack]) -> LayerStack | None:
    """The stack whose layers keep the cache, or the last where there is no cache; None when none has as many layers."""
    layers = [one.layer for side in (part.spec.inputs, part.spec.outputs) for one in side]
    deepest = max((layer for layer in layers if layer is not None), default=-1)
    fits = [one for one in found if one.layers == deepest + 1] or [one for one in found if one.layers > deepest]
    return fits[-1] if fits else None


def _truncated_part(part: Part, stack: LayerStack) -> Part:
    """The part with no more of the cache than the first layers keep."""
    spec = part.spec
    inputs = tuple(one for one in spec.inputs if one.layer is None or one.layer < stack.traced_layers)
    outputs = tuple(one for one in spec.outputs if one.layer is None or one.layer < stack.traced_layers)
    names = {one.name for one in inputs}
    feedback = tuple(link for link in spec.feedback if link.input in names)
    return evolve(part, spec=evolve(spec, inputs=inputs, outputs=outputs, feedback=feedback))


def _from_trace(model: Any, part: Part, timed: StageTimer, options: BuildOptions) -> Any:
    with timed("capture", part.name):
        graph = capture(model, part)
    with timed("passes", part.name), quiet():
        graph = share_size_reads(to_slots(graph, parameter_names(model)), part)
        graph = fuse_operators(convert_opset(simplify(graph), part.spec.target.opset or 0), options.fuse)
        fusions(graph)
        if options.pretranspose:
            graph = pretranspose(graph)
        facts = {
            "task": part.spec.task,
            "model": type(model).__name__,
            "limits": ", ".join(map(str, graph.meta[LIMITS])),
        }
        return add_metadata(
            strip_metadata(name_ports(graph, part)), {name: fact for name, fact in facts.items() if fact}
        )

"""Builds the finished graph of a part from a model: capture, passes, the template cache, weights."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from attrs import evolve
from toolz import groupby

from onnxfn.graphs.build_options import BuildOptions
from onnxfn.graphs.capture.built_graph import BuiltGraph
from onnxfn.graphs.nodes.slots import bind_weights, merge_slots
from onnxfn.graphs.passes.adapter_inputs import add_adapter_inputs
from onnxfn.graphs.passes.canonical import number_nodes, order_by_structure
from onnxfn.graphs.passes.merging import insert_branches, insert_filler
from onnxfn.graphs.passes.naming import add_metadata
from onnxfn.graphs.quantization.quantize import keep_stored_blocks, quantize_weights
from onnxfn.graphs.quantization.quantized_slots import bind_quantized_weights
from onnxfn.graphs.templates.fingerprints import fingerprint
from onnxfn.graphs.templates.template_cache import delete_template, load_template, save_template
from onnxfn.graphs.traced_graphs import graph_with_slots, pass_errors, with_bodies
from onnxfn.models.torch_modes import tracing_alone
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.conditions import Condition, as_ranges, stated
from onnxfn.specs.errors import raise_no_memory
from onnxfn.specs.stored.reports import StageTimer
from onnxfn.weights.layouts import dtype_suffix
from onnxfn.weights.packed.stored_blocks import ATTRIBUTE

UnboundGraph = Callable[[Any, Part, StageTimer, BuildOptions], BuiltGraph]
"""From a model, a part, the timer of the stages and options to the graph of the part, whose parameters are slots."""


def build_graph(
    model: Any,
    part: Part,
    timed: StageTimer,
    options: BuildOptions,
    weights: Any = None,
    *,
    unbound_graph: UnboundGraph | None = None,
) -> BuiltGraph:
    """The finished graph of a part, its initializers bound to the tensors of `weights`, which are not copied.

    `weights` is a model with the parameters and buffers of `model`; None is `model` itself. The parameters of `model`
    have the float dtype of the part, and need no values. The graph is loaded from the template cache if it is there;
    else it is built, and saved there. `unbound_graph` builds it: see `captured_once`; None traces the model.
    """
    tensors = (weights or model).state_dict(keep_vars=True)
    with tracing_alone(timed, part.name):
        name, built = None, None
        if options.template_cache is not None and not options.source_lines:
            with timed("template", part.name):
                name = fingerprint(model, evolve(captured_part(part), name=""), options.pretranspose)
                built = _from_template(tensors, name, options.template_cache, part)
        if built is None:
            built = (unbound_graph or _unbound_graph)(model, part, timed, options)
            save_template(options.template_cache, name, built, options.template_cache_bytes)
            built = finished_graph(built, part, tensors)
        graph, stored = built.model, built.stored
        with pass_errors(part):
            if any(hasattr(tensor, ATTRIBUTE) for tensor in tensors.values()):
                graph, stored = keep_stored_blocks(graph, tensors)
                graph = number_nodes(graph)
            return evolve(built, model=with_bodies(graph), stored=stored, template=name)


def finished_graph(built: BuiltGraph, part: Part, tensors: Mapping[str, Any]) -> BuiltGraph:
    """A graph with its weights: those that the rules of the part select are quantized when they are written."""
    graph, rules = built.model, part.spec.target.quantization
    if rules:
        keys = {name: (each.data_ptr() or id(each), tuple(each.shape)) for name, each in tensors.items()}
        sharing = groupby(keys.__getitem__, keys)  # tied weights share their memory
        with pass_errors(part):
            graph, left = quantize_weights(graph, rules, {name: tuple(sharing[key]) for name, key in keys.items()})
        built = evolve(built, not_quantized=left)
        graph = number_nodes(graph)
    graph = bind_quantized_weights(bind_weights(graph, tensors.__getitem__), tensors.__getitem__)
    return evolve(built, model=graph)


def _from_template(tensors: Mapping[str, Any], name: str | None, folder: Path, part: Part) -> BuiltGraph | None:
    """The graph of a template with the weights of a model; None, and the template is deleted, if it does not fit."""
    try:
        built = load_template(folder, name)
        return None if built is None else finished_graph(built, part, tensors)
    except Exception as error:  # noqa: BLE001 - whatever the template lacks, the graph can be captured again
        raise_no_memory(error)
        delete_template(folder, name)
        return None


def captured_part(part: Part) -> Part:
    """The facts of a part that decide its graph before quantization: variants of one float dtype share them."""
    target = evolve(part.spec.target, quantization=())
    filler = tuple(map(captured_part, part.filler))
    if part.dtype is None:
        return evolve(part, spec=evolve(part.spec, target=target), filler=filler)
    name, spec = part.name.removesuffix(dtype_suffix(part.dtype)), evolve(part.spec, target=target, links=())
    return evolve(part, name=name, spec=spec, filler=filler, dtype=None)


def captured_once() -> UnboundGraph:
    """A function that traces a model once, in one export, for all variants with the same `captured_part`."""
    graphs: dict[Any, BuiltGraph] = {}

    def unbound_graph(model: Any, part: Part, timed: StageTimer, options: BuildOptions) -> BuiltGraph:
        if part.dtype is None:
            return _unbound_graph(model, part, timed, options)
        of_trace = options.find_repeats, options.joins_traces, options.source_lines
        key = (captured_part(part), *of_trace, options.pretranspose, options.other_sides)
        if key not in graphs:
            graphs[key] = _unbound_graph(model, part, timed, options)
        return evolve(graphs[key], model=graphs[key].model.clone())

    return unbound_graph


def drop_templates(options: BuildOptions, graphs: Iterable[BuiltGraph]) -> None:
    """Deletes the templates of graphs from the cache, so that no later export loads them."""
    for graph in graphs:
        delete_template(options.template_cache, graph.template)


def traced_fully(graph: BuiltGraph) -> bool:
    """Whether a graph was traced from the model itself with all its layers: not repeated, and not from a template."""
    return not graph.from_template and not graph.from_repeats


def _unbound_graph(model: Any, part: Part, timed: StageTimer, options: BuildOptions) -> BuiltGraph:
    """The graph of a part and of its filler; its parameters are slots."""
    built = graph_with_slots(model, part, timed, options)
    for filler in part.filler:
        filled_inputs = {feedback.output: feedback.input for feedback in part.spec.feedback}
        filler_graph = graph_with_slots(model, filler, timed, options).model
        with pass_errors(part):
            built = evolve(built, model=merge_slots(insert_filler(built.model, filler_graph, filled_inputs)))
    for condition, other in options.other_sides:
        if other.name == part.name:
            elsewhere = graph_with_slots(model, other, timed, options)
            with pass_errors(part):
                built = _with_other_side(built, elsewhere, condition, part)
    with pass_errors(part):
        layers = part.spec.target.adapter_inputs
        graph = add_adapter_inputs(built.model, layers) if layers else built.model
        return evolve(built, model=order_by_structure(graph))


def _with_other_side(built: BuiltGraph, other: BuiltGraph, condition: Condition, part: Part) -> BuiltGraph:
    """The graph of a part that is valid on one side of a condition, with another graph for the other side."""
    # What is true of one side says nothing of the other: `time <= 16 or time % 5 == 0`.
    text = condition.text
    axes = {symbol: (name, axis) for name, of_input in part.inputs.items() for axis, symbol in of_input.items()}
    graph = merge_slots(insert_branches(built.model, other.model, condition, axes))
    left = [each for each in built.limits if each.text != text]
    limits = (*left, *(end for each in _either(text, other.limits) for end in as_ranges(each)))
    conditions = (condition, *_either(f"not ({text})", built.conditions), *_either(text, other.conditions))
    return evolve(
        built,
        model=add_metadata(graph, {"limits": stated(limits), "conditions": stated(conditions)}),
        limits=limits,
        conditions=conditions,
        traced_layers=f"two graphs: one where {condition}, one elsewhere",
    )


def _either(text: str, conditions: Iterable[Condition]) -> list[Condition]:
    """Conditions on the sizes where another one is false, without those that are true at all sizes."""
    return [new for each in conditions if as_ranges(new := evolve(each, text=f"{text} or {each.text}"))]

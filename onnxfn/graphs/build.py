"""Builds the finished graph of a part from a model: capture, passes, the template cache, weights."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from onnxfn.graphs.capture.built_graph import BuiltGraph
from onnxfn.graphs.capture.capture import capture, parameter_names
from onnxfn.graphs.fusions.fusing import fuse_operators
from onnxfn.graphs.layers.layer_periods import layer_ports
from onnxfn.graphs.layers.repeat_layers import repeat_layers
from onnxfn.graphs.layers.repeated_layers import LayerStack, stacks_worth_a_proof, truncated
from onnxfn.graphs.nodes.slots import bind_weights, merge_slots, pretranspose, to_slots
from onnxfn.graphs.passes.adapter_inputs import add_adapter_inputs
from onnxfn.graphs.passes.canonical import order_by_structure
from onnxfn.graphs.passes.merging import insert_filler
from onnxfn.graphs.passes.naming import add_metadata, name_ports, order_ports, strip_metadata
from onnxfn.graphs.passes.shared_cache import share_cache
from onnxfn.graphs.passes.simplify import convert_opset, separate_pads, share_size_reads, simplify, widen_integers
from onnxfn.graphs.quantization.quantize import quantize_weights
from onnxfn.graphs.quantization.quantized_slots import bind_quantized_weights
from onnxfn.graphs.quantization.stored_blocks import keep_stored_blocks
from onnxfn.graphs.templates.fingerprints import fingerprint
from onnxfn.graphs.templates.template_cache import MAX_CACHE_BYTES, delete_template, load_template, save_template
from onnxfn.models.torch_modes import quiet, tracing_alone
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.errors import (
    CaptureFailed,
    InvalidSpec,
    LayersDiffer,
    OnnxfnError,
    first_line,
    is_possible_path,
    raise_no_memory,
    root_cause,
)
from onnxfn.specs.record import typed_fields
from onnxfn.specs.short_repr import short_repr
from onnxfn.specs.stored.reports import StageTimer
from onnxfn.weights.layouts import dtype_suffix

GRAPHS = str(Path(__file__).parent)
"""The folder of the folders of passes."""

FindRepeats = Callable[[Any], tuple[LayerStack, ...]]
"""Function from a model to its stacks of repeated layers."""


def _as_path(path: str | PathLike[str] | None) -> Path | None:
    """A text or a path as a path; InvalidSpec for anything else, and for a text that cannot be a path."""
    if path is not None and not (isinstance(path, str | PathLike) and is_possible_path(path)):
        raise InvalidSpec(f"{path!r} is not a path; pass the path of a folder, or None for no cache")
    return None if path is None else Path(path)


def _check_find_repeats(_: Any, __: Any, find_repeats: Any) -> None:
    if not callable(find_repeats):
        raise InvalidSpec(f"find_repeats is {find_repeats!r}; pass a function, such as trace_all_layers")


def trace_all_layers(model: Any) -> tuple[LayerStack, ...]:  # noqa: ARG001 - a value of BuildOptions.find_repeats
    """Finds no repeated layers, so that every layer is traced; a value of `BuildOptions.find_repeats`.

    Args:
        model: A PyTorch model.

    Returns:
        An empty tuple.

    Example:
        >>> BuildOptions(find_repeats=trace_all_layers).find_repeats("any model")
        ()
    """
    return ()


@frozen(kw_only=True, field_transformer=typed_fields)
class BuildOptions:
    """The options for building the graph of a part from a model.

    Attributes:
        find_repeats: Function from a model to its stacks of repeated layers. Of each stack a few layers are traced,
            and the graph repeats them. `trace_all_layers` finds none, so that every layer is traced. The default finds
            them where that saves time. The graph is the same either way; only the time differs. An export without a
            check traces every layer.
        template_cache: Folder, a path or a string, where graphs are saved without weights, and loaded from for the next
            model that differs in weight values alone. None saves and loads nothing.
        template_cache_bytes: Bytes that the files of `template_cache` may have together. The least recently used files
            are deleted when there are more.
        pretranspose: Whether weights that a graph transposes are stored transposed. False stores them as the checkpoint
            does, so that a file can be linked to it. `export` decides this from its `WriteOptions`.

    Raises:
        InvalidSpec: `find_repeats` is not a function, or `template_cache` is not a path.

    Example:
        >>> BuildOptions(pretranspose=False).pretranspose
        False
    """

    __repr__ = short_repr

    find_repeats: FindRepeats = field(default=stacks_worth_a_proof, validator=_check_find_repeats)
    template_cache: Path | None = field(default=None, converter=_as_path)
    template_cache_bytes: int = MAX_CACHE_BYTES
    pretranspose: bool = True


Pass = Callable[[Any], Any]
"""Function from a graph to a graph."""

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
    have the float dtype of the part, and need no values; those of another dtype in `weights` are converted when they
    are written. The graph is loaded from the template cache if it is there; else it is built, and saved there.
    `unbound_graph` builds it: see `captured_once`; None traces the model.
    """
    tensors = (weights or model).state_dict(keep_vars=True)
    with tracing_alone(timed, part.name):
        name, built = None, None
        if options.template_cache is not None:
            with timed("template", part.name):
                name = template_name(model, part, options)
                built = _from_template(tensors, name, options.template_cache, part)
        if built is None:
            built = (unbound_graph or _unbound_graph)(model, part, timed, options)
            save_template(options.template_cache, name, built, options.template_cache_bytes)
            built = finished_graph(built, part, tensors)
        with _pass_errors(part):
            graph, stored = keep_stored_blocks(built.model, tensors)
        return evolve(built, model=graph, stored=stored, template=name)


def finished_graph(built: BuiltGraph, part: Part, tensors: Mapping[str, Any]) -> BuiltGraph:
    """A graph with its weights: those that the rules of the part select are quantized when they are written."""
    graph, rules = built.model, part.spec.target.quantization
    if rules:
        with _pass_errors(part):
            graph, left = quantize_weights(graph, rules, _names_by_memory(tensors))
        built = evolve(built, not_quantized=left)
    graph = bind_quantized_weights(bind_weights(graph, tensors.__getitem__), tensors.__getitem__)
    return evolve(built, model=graph)


def _names_by_memory(tensors: Mapping[str, Any]) -> Mapping[str, tuple[str, ...]]:
    """From the name of each tensor to the names of all tensors that share its memory, as tied weights do."""
    names: dict[Any, list[str]] = {}
    keys = {name: _memory(tensor) for name, tensor in tensors.items()}
    for name, key in keys.items():
        names.setdefault(key, []).append(name)
    return {name: tuple(names[key]) for name, key in keys.items()}


def _memory(tensor: Any) -> Any:
    """A value that is equal for tensors on the same memory."""
    if hasattr(tensor, "data_ptr"):
        return tensor.data_ptr() or id(tensor), tuple(tensor.shape)
    return tensor.__array_interface__["data"][0], tensor.shape


def _from_template(tensors: Mapping[str, Any], name: str | None, folder: Path, part: Part) -> BuiltGraph | None:
    """The graph of a template with the weights of a model; None, and the template is deleted, if it does not fit."""
    built = load_template(folder, name)
    if built is None:
        return None
    try:
        return finished_graph(built, part, tensors)
    except Exception as error:  # noqa: BLE001 - whatever the template lacks, the graph can be captured again
        raise_no_memory(error)
        delete_template(folder, name)
        return None


def template_name(model: Any, part: Part, options: BuildOptions) -> str | None:
    """The name of a part's template: equal for models that differ in weight values alone; None if undecidable."""
    return fingerprint(model, captured_part(part), options.pretranspose)


def captured_part(part: Part) -> Part:
    """The facts of a part that decide its graph before quantization: variants of one float dtype share them."""
    target = evolve(part.spec.target, quantization=())
    filler = tuple(map(captured_part, part.filler))
    if part.dtype is None:
        return evolve(part, spec=evolve(part.spec, target=target), filler=filler)
    name, spec = part.name.removesuffix(dtype_suffix(part.dtype)), evolve(part.spec, target=target, links=())
    return evolve(part, name=name, spec=spec, filler=filler, dtype=None)


def captured_once() -> UnboundGraph:
    """A function that traces a model once for all variants with the same `captured_part`; each gets its own copy.

    It holds the graphs, so it is for one model and one export.
    """
    graphs: dict[Any, BuiltGraph] = {}

    def unbound_graph(model: Any, part: Part, timed: StageTimer, options: BuildOptions) -> BuiltGraph:
        if part.dtype is None:
            return _unbound_graph(model, part, timed, options)
        key = (captured_part(part), options.find_repeats, options.pretranspose)
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
    graph = built.model
    for filler in part.filler:
        filled_inputs = {feedback.output: feedback.input for feedback in part.spec.feedback}
        filler_graph = graph_with_slots(model, filler, timed, options).model
        with _pass_errors(part):
            graph = merge_slots(insert_filler(graph, filler_graph, filled_inputs))
    with _pass_errors(part):
        graph = add_adapter_inputs(graph, part.spec.target.adapter_inputs or ())
        return evolve(built, model=order_by_structure(graph))


def graph_with_slots(model: Any, part: Part, timed: StageTimer, options: BuildOptions) -> BuiltGraph:
    """The graph of a part without its filler; its parameters are slots.

    Repeated layers are traced once, if a comparison of two periods proves that they are equal. Else all layers are
    traced, and `traced_layers` says why.
    """
    stacks = options.find_repeats(model)
    cache_stack = _cache_stack(part, stacks)
    why = ""
    if stacks and cache_stack is not None:
        try:
            return _from_repeats(model, part, timed, options, stacks, cache_stack)
        except (LayersDiffer, CaptureFailed) as error:
            why = str(error)
    built = _from_trace(model, part, timed, options)
    return evolve(built, traced_layers=f"every layer traced: {why}" if why else "")


def _from_repeats(
    model: Any,
    part: Part,
    timed: StageTimer,
    options: BuildOptions,
    stacks: Sequence[LayerStack],
    cache_stack: LayerStack,
) -> BuiltGraph:
    """The graph of a part, from a trace of the first layers of each stack. Raises LayersDiffer when the proof fails."""
    traced_part = _truncated_part(part, cache_stack)
    with truncated(model, stacks):
        built = _from_trace(model, traced_part, timed, options)
    graph = built.model
    with timed("passes", part.name) as tick, _pass_errors(part):
        for stack in stacks:
            tick()
            traced_ports = layer_ports(traced_part) if stack is cache_stack else {}
            planned_ports = layer_ports(part) if stack is cache_stack else {}
            graph = repeat_layers(graph, stack, traced_ports, planned_ports)
        graph = order_ports(graph, part)
    lines = (f"{stack.layers} layers of {stack.path} from {stack.traced_layers}" for stack in stacks)
    return evolve(built, model=graph, from_repeats=True, traced_layers=", ".join(lines))


def _cache_stack(part: Part, stacks: Sequence[LayerStack]) -> LayerStack | None:
    """The stack whose layers own the inputs and outputs of single layers, such as a KV cache; the last if several fit.

    None when the part has inputs or outputs of more layers than any stack.
    """
    layers = [tensor.layer for side in (part.spec.inputs, part.spec.outputs) for tensor in side]
    last = max((layer for layer in layers if layer is not None), default=-1)
    exact = [stack for stack in stacks if stack.layers == last + 1]
    fitting = exact or [stack for stack in stacks if stack.layers > last]
    return fitting[-1] if fitting else None


def _truncated_part(part: Part, stack: LayerStack) -> Part:
    """The part without the inputs and outputs of layers that are not traced."""
    spec = part.spec
    inputs = tuple(input_ for input_ in spec.inputs if input_.layer is None or input_.layer < stack.traced_layers)
    outputs = tuple(output for output in spec.outputs if output.layer is None or output.layer < stack.traced_layers)
    names = {input_.name for input_ in inputs}
    feedback = tuple(link for link in spec.feedback if link.input in names)
    return evolve(part, spec=evolve(spec, inputs=inputs, outputs=outputs, feedback=feedback))


def _from_trace(model: Any, part: Part, timed: StageTimer, options: BuildOptions) -> BuiltGraph:
    """The graph of a part, from a trace of all layers that the model has now; its parameters are slots."""
    with timed("capture", part.name) as tick:
        built = capture(model, part, tick)
    facts = {
        "task": part.spec.task,
        "model": type(model).__name__,
        "limits": ", ".join(map(str, built.limits)),
    }
    graph = built.model
    with timed("passes", part.name) as tick, quiet(), _pass_errors(part):
        for each in _passes(model, part, options):
            graph = each(graph)
            tick()
        known = {name: text for name, text in facts.items() if text}
        return evolve(built, model=add_metadata(strip_metadata(graph), known))


def _passes(model: Any, part: Part, options: BuildOptions) -> tuple[Pass, ...]:
    """The passes over the graph of a trace, in their order; `fuse_operators` has its own list."""
    target = part.spec.target
    return (
        lambda graph: to_slots(graph, parameter_names(model)),
        lambda graph: share_size_reads(graph, part),
        simplify,
        widen_integers,
        lambda graph: convert_opset(graph, target.opset or 0),
        fuse_operators,
        *((lambda graph: share_cache(graph, part),) if target.shared_cache else ()),
        separate_pads,
        *((pretranspose,) if options.pretranspose else ()),
        lambda graph: name_ports(graph, part),
    )


@contextmanager
def _pass_errors(part: Part) -> Iterator[None]:
    """Turns an error of a pass over the graph of a part into CaptureFailed; errors of onnxfn are not changed."""
    try:
        yield
    except OnnxfnError:
        raise
    except Exception as error:
        raise_no_memory(error)
        cause = root_cause(error)
        raise CaptureFailed(
            f"a pass failed on the graph of {part.name!r}, at {_pass_line(error)}: "
            f"{type(cause).__name__}: {first_line(cause)}; please report it as a fault of onnxfn"
        ) from error


def _pass_line(error: Exception) -> str:
    """The last line of a pass that ran before an error, as `file:line`."""
    frames = traceback.extract_tb(error.__traceback__)
    passes = [frame for frame in frames if frame.filename.startswith(GRAPHS) and frame.filename != __file__]
    frame = (passes or frames)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno}"

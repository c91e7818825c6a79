"""The graph of a part from traces of its model, after the passes; its parameters are slots."""

import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from attrs import evolve

from onnxfn.graphs.build_options import BuildOptions
from onnxfn.graphs.capture.built_graph import BuiltGraph
from onnxfn.graphs.capture.capture import capture, parameter_names
from onnxfn.graphs.capture.trace_conditions import TORCH
from onnxfn.graphs.capture.trace_errors import WRAPPED, source_line
from onnxfn.graphs.fusions.fusing import fuse_operators
from onnxfn.graphs.layers.repeat_layers import layer_ports, repeat_layers
from onnxfn.graphs.layers.repeated_layers import LayerStack, truncated
from onnxfn.graphs.nodes.nodes import DOMAIN, import_domain
from onnxfn.graphs.nodes.slots import pretranspose, put_in_turn, to_slots
from onnxfn.graphs.passes import simplify
from onnxfn.graphs.passes.naming import add_metadata, name_nodes, name_ports, order_ports
from onnxfn.graphs.passes.shared_cache import for_single_texts, share_cache, tell_lengths
from onnxfn.models.torch_modes import quiet
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.conditions import SEPARATOR, Condition, read_conditions, stated
from onnxfn.specs.errors import CaptureFailed, LayersDiffer, errors_as, first_line, root_cause
from onnxfn.specs.stored.reports import StageTimer


def graph_with_slots(model: Any, part: Part, timed: StageTimer, options: BuildOptions) -> BuiltGraph:
    """The graph of a part without its filler, with slots; `traced_layers` says why all layers are traced."""
    stacks = options.find_repeats(model)
    cache_stack = _cache_stack(part, stacks)
    why = ""
    if stacks and cache_stack is not None:
        try:
            return _from_repeats(model, part, timed, options, stacks, cache_stack)
        except (LayersDiffer, CaptureFailed) as error:
            why = str(error)
    return evolve(_from_trace(model, part, timed, options), traced_layers=f"every layer traced: {why}" if why else "")


def _from_repeats(
    model: Any, part: Part, timed: StageTimer, options: BuildOptions, stacks: Sequence[LayerStack], of_cache: LayerStack
) -> BuiltGraph:
    """The graph of a part, from a trace of the first layers of each stack. Raises LayersDiffer when the proof fails."""
    traced_part = _truncated_part(part, of_cache)
    with truncated(model, stacks):
        built = _from_trace(model, traced_part, timed, options)
    graph = built.model
    with timed("passes", part.name) as tick, pass_errors(part):
        for stack in stacks:
            tick()
            ports = (layer_ports(traced_part), layer_ports(part)) if stack is of_cache else ({}, {})
            graph = repeat_layers(graph, stack, *ports)
        graph = order_ports(graph, part)
    lines = (f"{stack.layers} layers of {stack.path} from {stack.traced_layers}" for stack in stacks)
    return evolve(built, model=graph, from_repeats=True, traced_layers=", ".join(lines))


def _cache_stack(part: Part, stacks: Sequence[LayerStack]) -> LayerStack | None:
    """The last stack whose layers own the inputs and outputs of single layers, such as a KV cache; else None."""
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
        built = capture(model, part, tick, is_joined=options.joins_traces, source_lines=options.source_lines)
    if part.spec.target.shared_cache:
        built = evolve(built, limits=(*built.limits, *for_single_texts(part.spec)))
    constants = (f"{each.name}={each.value!r}" for each in part.spec.call.constants)
    facts = {
        "task": part.spec.task or "",
        "model": type(model).__name__,
        "limits": stated(built.limits),
        "conditions": stated(built.conditions),
        "static_cache": str(part.spec.target.static_cache or ""),
        "constants": SEPARATOR.join(constants) if part.spec.derived is not None else "",
    }
    graph = built.model
    with timed("passes", part.name) as tick, quiet(), pass_errors(part):
        for each in _passes(model, part, options):
            graph = each(graph)
            tick()
        modules = {f"{WRAPPED}.{path}": path for path, _ in model.named_modules()}
        graph = name_nodes(graph, modules, source_line if options.source_lines else lambda _: "")
        return evolve(built, model=add_metadata(graph, facts))


def with_assumed_limits(built: BuiltGraph) -> BuiltGraph:
    """A graph whose other sizes nobody checks, limited by what torch assumed; CaptureFailed if it needs a check."""
    if built.needs_check:
        raise CaptureFailed(
            "the model needs numbers for its sizes; the formulas that several traces suggest have to be checked: "
            "export with check='whole', or fix the sizes: with_shapes(spec, ...) (--shape)"
        )
    return with_limits(built, [each for each in noted_conditions(built) if each.line == TORCH])


def noted_conditions(built: BuiltGraph) -> tuple[Condition, ...]:
    """What was true of the sizes in the trace of a graph, which may come from a template."""
    return read_conditions(built.model.metadata_props.get("onnxfn.conditions", ""))


def with_limits(built: BuiltGraph, more: Iterable[Condition]) -> BuiltGraph:
    """A graph that states more limits of its sizes."""
    limits = tuple(dict.fromkeys((*built.limits, *more)))
    return evolve(built, limits=limits, model=add_metadata(built.model, {"limits": stated(limits)}))


def _passes(model: Any, part: Part, options: BuildOptions) -> tuple[Callable[[Any], Any], ...]:
    """The passes over the graph of a trace, in their order; `fuse_operators` has its own list."""
    target = part.spec.target
    keeps_attention = bool(target.shared_cache or target.static_cache)
    for_cpu = target.provider in (None, "cpu") and bool(part.spec.feedback)  # prompts of decoders
    return (
        lambda graph: to_slots(graph, parameter_names(model)),
        lambda graph: simplify.read_numbers(graph, part),
        lambda graph: simplify.share_size_reads(graph, part),
        simplify.simplify,
        simplify.widen_integers,
        lambda graph: simplify.convert_opset(graph, target.opset or 0),
        lambda graph: fuse_operators(graph, keeps_attention=keeps_attention, for_cpu=for_cpu),
        *((lambda graph: share_cache(graph, part),) if target.shared_cache else ()),
        *((tell_lengths,) if target.static_cache else ()),
        simplify.separate_pads,
        *((pretranspose,) if options.pretranspose else ()),
        put_in_turn,
        lambda graph: name_ports(graph, part),
    )


def with_bodies(graph: Any) -> Any:
    """The finished graph; its operators of `com.microsoft` have bodies: see `define_operators`."""
    if DOMAIN not in import_domain(graph).opset_imports:
        return graph
    from onnxfn.graphs.passes.definitions import define_operators

    return define_operators(graph)


def pass_errors(part: Part) -> AbstractContextManager[None]:
    """Turns an error of a pass over the graph of a part into CaptureFailed; errors of onnxfn are not changed."""

    def failed(error: Exception) -> CaptureFailed:
        cause = root_cause(error)
        return CaptureFailed(
            f"a pass failed on the graph of {part.name!r}, at {_pass_line(error)}: "
            f"{type(cause).__name__}: {first_line(cause)}; please report it as a fault of onnxfn"
        )

    return errors_as(failed)


def _pass_line(error: Exception) -> str:
    """The last line of a pass that ran before an error, as `file:line`."""
    frames = traceback.extract_tb(error.__traceback__)
    folder = str(Path(__file__).parent)  # of the folders of passes
    passes = [frame for frame in frames if frame.filename.startswith(folder) and frame.filename != __file__]
    frame = (passes or frames)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno}"

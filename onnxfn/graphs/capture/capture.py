"""`capture`: traces a model with torch.export and translates the trace to an ONNX graph."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from typing import Any

from onnxfn.architectures.patch_table import patches_of
from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.graphs.capture import trace_conditions, trace_settings
from onnxfn.graphs.capture.built_graph import BuiltGraph
from onnxfn.graphs.capture.trace_errors import WRAPPED, NotTranslated, trace_error, untranslated_message
from onnxfn.models.forward import check_read, flat_forward, tensors_for
from onnxfn.models.model_state import unchanged_eval
from onnxfn.models.patching import applied, unused_patches
from onnxfn.models.submodules import submodule_of
from onnxfn.models.torch_modes import LOCK, quiet
from onnxfn.specs.algebra.dummies import dummies, with_sizes_as_axes
from onnxfn.specs.algebra.planned import Part, PlannedSpec
from onnxfn.specs.axes import terms, value
from onnxfn.specs.errors import CaptureFailed, InvalidSpec, OnnxfnError, listed, raise_no_memory, root_cause
from onnxfn.specs.stored.reports import Tick, no_tick


def capture(
    model: Any, part: Part, tick: Tick = no_tick, *, is_joined: bool = False, source_lines: bool = False
) -> BuiltGraph:
    """The graph of a part in opset 18, with inputs and outputs in the order of the plan, and what the trace tells.

    The initializers are the model's own tensors, not copies, under the names that they have in the checkpoint.
    The model, its configuration and the state of torch are restored afterwards, also after an error. `tick` is called
    for each operator that is traced or translated. `is_joined`: traces at several fixed sizes are joined.
    `source_lines`: torch records where the model calls an operator.

    Raises:
        CaptureFailed: torch.export cannot trace the model as planned, or an operator has no translation. The message
            names the line of the model's source where the trace ended.
    """
    noted: trace_settings.Noted = {}
    part = trace_conditions.at_other_sizes(with_sizes_as_axes(part))
    with tracing(model, part, noted, tick) as called, trace_settings.source_lines() if source_lines else nullcontext():
        program, ends = any_program(model, part, noted)
        axes = trace_conditions.input_sizes(program, part)
        branches = trace_conditions.conditions(noted.values(), axes)
        branches += tuple(trace_conditions.nested(branches, part, partial(_conditions_at, model, noted, tick)))
        runs = partial(trace_conditions.runs_at, model, part)
        if is_joined:
            program, ends = _joined_program(model, part)
            if ends:  # the conditions of the other trace are exact
                raise CaptureFailed(f"the model is another at larger sizes than {ends}")
        limits = trace_conditions.range_limits(program, part, runs)
        limits, assumed = trace_conditions.without_assumed(limits, branches, part, runs)
        limits = trace_conditions.with_ends(limits, ends or {})
        if part.spec.derived is None:  # of others another graph may have the rest of a range
            trace_conditions.check_ranges(model, part, limits)
        tick()
        try:
            graph = _translated(program, part, tick)
        except NotTranslated as error:
            raise CaptureFailed(_refusal(model, part, tick, error, noted)) from error.__cause__
    return BuiltGraph(
        model=graph,
        limits=trace_conditions.stated_limits(limits, part),
        conditions=(*assumed, *branches),
        guards=partial(trace_conditions.guards, axes),
        needs_check=ends is not None,
        unused_patches=unused_patches(part.spec.call.patches, called),
    )


@contextmanager
def tracing(model: Any, part: Part, noted: trace_settings.Noted, tick: Tick = no_tick) -> Iterator[Any]:
    """What holds while a part is traced, and is undone afterwards; gives the patches that were called."""
    from onnxfn.graphs.capture.sequence_lengths import dynamic_lengths

    torch_name("exporter")
    tick()  # the first import of it takes a quarter of a second
    unchanged = unchanged_eval(model, part.spec.call.attention)
    patches = applied(patches_of(model, part.spec.call, part.spec.target.opset or 0))
    own = [
        dynamic_lengths(model),
        trace_settings.assertions_hold(noted),
        trace_conditions.noted_conditions(model, noted),
        trace_settings.modules_left_by_errors(),
    ]
    with LOCK, quiet(), unchanged, patches as called, ExitStack() as stack:
        for setting in (*own, trace_settings.fast_export(tick), trace_settings.annotations_of_this_thread()):
            stack.enter_context(setting)
        yield called


def parameter_names(model: Any) -> Callable[[Any], str | None]:
    """A function from a tensor to the name of the parameter with its memory, the first of tied ones; else None."""
    names = {_memory(tensor): name for name, tensor in reversed(list(model.state_dict(keep_vars=True).items()))}
    return lambda tensor: names.get(_memory(tensor)) if hasattr(tensor, "untyped_storage") and tensor.numel() else None


def _memory(tensor: Any) -> tuple[Any, ...]:
    return tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype


def exported_program(
    model: Any,
    part: Part,
    noted: trace_settings.Noted | None = None,
    *,
    module: Any = None,
    is_fixed: bool = False,
    on_start: Callable[[Sequence[Any]], object] = len,
) -> Any:
    """The `torch.export.ExportedProgram` of a part. Raises CaptureFailed when the model cannot be traced as planned.

    `noted`: the conditions of the trace so far, for the message. `module`: what is traced in place of the model.
    `is_fixed`: all sizes are those of the spec. `on_start`: called with the tensors of the trace.
    """
    import torch

    spec = part.spec
    sample = tensors_for(model, spec, dummies(spec, {}))
    dynamic_shapes = tuple(
        {index: trace_conditions.dynamic_size(spec, symbol) for index, symbol in axes.items() if not is_fixed}
        for axes in part.inputs.values()
    )
    forward = module or flat_forward(model, spec)

    def checked_forward(tensors: tuple[Any, ...]) -> tuple[Any, ...]:
        for equality in _size_equalities(part, tensors):
            torch_name("check")(equality)
        before = _buffer_versions(model)
        on_start(tensors)
        try:
            result = forward(tensors)
        except trace_settings.BranchOnValues as hidden:
            raise hidden from root_cause(hidden).with_traceback(hidden.__traceback__)  # with the lines of the model
        except RuntimeError as error:
            if trace_settings.DATA_DEPENDENT in str(error):
                raise trace_settings.BranchOnValues from error
            raise
        after = _buffer_versions(model)
        pairs = {name: (*before[name], *after[name]) for name in before.keys() & after.keys()}
        changed.update(name for name, (old, writes, new, later) in pairs.items() if old is not new or writes != later)
        return result

    changed: set[str] = set()
    traced = torch.nn.Module()
    setattr(traced, WRAPPED, module or model)
    traced.forward = checked_forward
    try:
        with torch.no_grad():
            program = torch.export.export(traced, (sample,), dynamic_shapes=(dynamic_shapes,), strict=False)
            _check_state(model, program, changed)
            check_read(submodule_of(model, spec.call.submodule), spec, _read_inputs(program, spec))
            return program
    except OnnxfnError:
        raise
    except (Exception, trace_settings.BranchOnValues) as error:
        raise_no_memory(error)
        shown = root_cause(error) if isinstance(error, trace_settings.BranchOnValues) else error
        raise trace_error(model, part, sample, shown, noted or {}) from error


def any_program(model: Any, part: Part, noted: trace_settings.Noted) -> tuple[Any, Mapping[str, int] | None]:
    """The program of a part by a trace with symbols for sizes, and None.

    If the model asks for a number, `int` and `float` are formulas in a second trace. If that ends, traces at several
    sizes are joined, and the second is the largest size of each axis that has one. Only a check tells if it is right.
    """
    from onnxfn.graphs.capture.sequence_lengths import symbolic_numbers

    program: Any = None
    try:
        with unchanged_eval(model):
            program = exported_program(model, part, noted)
    except CaptureFailed as error:
        failure = error
    if any(type(each.answer) is not bool for each in noted.values()):
        first = dict(noted)
        noted.clear()
        with suppress(CaptureFailed), unchanged_eval(model), symbolic_numbers(model):
            return exported_program(model, part, noted), None
        noted.update(first)
    try:
        return _joined_program(model, part) if program is None else (program, None)
    except CaptureFailed:
        raise failure from failure.__cause__


def _conditions_at(model: Any, noted: trace_settings.Noted, tick: Tick, part: Part) -> tuple[Any, ...]:
    """What is true of the sizes in another trace, at those of a part; also if it is then refused. `noted` stays."""
    first, taken = dict(noted), list[Sequence[Any]]()
    noted.clear()
    with suppress(CaptureFailed, InvalidSpec), unchanged_eval(model):  # an input may not be read there
        exported_program(model, part, noted, on_start=taken.append)
    tick()  # what stops an export may have ended the trace
    behind = tuple(noted.values())
    noted.clear()
    noted.update(first)
    return trace_conditions.conditions(behind, trace_conditions.sizes_of(taken[0], part)) if taken else ()


def _joined_program(model: Any, part: Part) -> tuple[Any, Mapping[str, int]]:
    from onnxfn.graphs.capture.several_traces import joined_traces

    module, ends = joined_traces(model, part, exported_program)
    return exported_program(model, part, module=module), ends


def _read_inputs(program: Any, spec: PlannedSpec) -> set[str]:
    """The names of the planned inputs whose elements a node of a program reads; asking for a size reads none."""
    import torch

    size = torch.ops.aten.sym_size.int
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    return {
        input_.name
        for input_, name in zip(spec.inputs, program.graph_signature.user_inputs, strict=True)
        if any(user.target is not size for user in nodes[name].users)
    }


def _check_state(model: Any, program: Any, changed: set[str]) -> None:
    """Raises InvalidSpec if an output reads one of the changed buffers as it was before: the next call differs."""
    signature = program.graph_signature
    buffers = {spec.arg.name: str(spec.target).removeprefix(f"{WRAPPED}.") for spec in signature.input_specs}
    outputs = set(signature.user_outputs)
    # They read nothing of what their first argument was.
    overwrites = ("aten.copy_.default", "aten.fill_.Scalar", "aten.fill_.Tensor", "aten.zero_.default")
    read, left = set(), [node for node in program.graph.nodes if node.name in outputs] if changed else []
    while left:
        node = left.pop()
        if node not in read:
            read.add(node)
            is_written = str(node.target) in overwrites
            left.extend(each for each in node.all_input_nodes if not is_written or each is not node.args[0])
    state = sorted(changed & {buffers.get(node.name, "") for node in read})
    if state:
        raise InvalidSpec(
            f"{type(model).__name__} changes its buffers {listed(state)} in forward, and a graph has no state; "
            "take them as arguments, and return the new ones"
        )


def _buffer_versions(model: Any) -> dict[str, tuple[Any, int]]:
    """Each buffer of a model, by its name, and how often it was written into."""
    return {name: (buffer, 0 if buffer.is_inference() else buffer._version) for name, buffer in model.named_buffers()}


def _size_equalities(part: Part, tensors: Sequence[Any]) -> list[Any]:
    """The equalities of the plan's symbols: axes of one symbol are equal, and an axis `a + b` is the sum of a and b."""
    sizes: dict[str, Any] = {}
    sums: list[tuple[Any, str]] = []
    equalities: list[Any] = []
    for axes, tensor in zip(part.inputs.values(), tensors, strict=True):
        for index, symbol in axes.items():
            if terms(symbol) != (symbol,):
                sums.append((tensor.shape[index], symbol))
            elif symbol in sizes:
                equalities.append(tensor.shape[index] == sizes[symbol])
            else:
                sizes[symbol] = tensor.shape[index]
    return equalities + [size == value(symbol, sizes) for size, symbol in sums if sizes.keys() >= set(terms(symbol))]


def _refusal(model: Any, part: Part, tick: Tick, error: NotTranslated, noted: trace_settings.Noted) -> str:
    """The message for a model that was not translated. It is traced again, so that torch records source lines."""
    with trace_settings.source_lines():
        try:
            _translated(any_program(model, part, noted)[0], part, tick)
        except NotTranslated as again:
            return untranslated_message(model, again)
    return untranslated_message(model, error)


def _translated(program: Any, part: Part, tick: Tick) -> Any:
    """The ONNX graph of an exported program. Raises NotTranslated when an operator has no translation."""
    import onnxscript.function_libs.torch_lib.ops  # noqa: F401 - a third of what `onnx_registry` takes
    import torch

    from onnxfn.graphs.translations import lowering

    tick()
    looked_up: list[Any] = []
    registry = lowering.watched_registry(lowering.onnx_registry(part.spec.target.opset or 18), tick, looked_up)
    try:
        # torch would look for the gradient of a Scan when it traces again.
        with torch.no_grad(), lowering.signatures_read_once():
            if not lowering.lower_in_place(program, registry):
                tick()
                program = torch_name("for_export")(program, registry=registry)
            graph = torch_name("as_onnx")(lowering.insert_type_promotions(program, registry), registry=registry).model
    except Exception as error:
        raise_no_memory(error)
        failed = [node for node in program.graph.nodes if looked_up and node.target == looked_up[-1]]
        raise NotTranslated(failed[0] if failed and _is_of_node(error) else None) from error
    for weight in list(graph.graph.initializers.values()):
        weight.name = weight.name.removeprefix(f"{WRAPPED}.")
    return graph


def _is_of_node(error: BaseException | None) -> bool:
    """Whether torch failed while it translated a node; False if it failed before."""
    return error is not None and (isinstance(error, torch_name("conversion_error")) or _is_of_node(error.__cause__))

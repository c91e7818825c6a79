"""Capture: a PyTorch model and a part of the plan -> a graph. The only module that touches torch.export, torch.onnx."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from onnxfn.graphs.capture.expected_operators import EXPECTED_OPERATORS, expected_operators
from onnxfn.graphs.capture.forward import flat_forward, tensors_for
from onnxfn.graphs.capture.lowering import insert_type_promotions, lower_in_place
from onnxfn.graphs.capture.model_state import unchanged_eval, with_attention
from onnxfn.graphs.capture.patching import applied
from onnxfn.graphs.capture.quiet import quiet
from onnxfn.specs.axes import terms, value
from onnxfn.specs.dummies import dummies
from onnxfn.specs.errors import CaptureFailed, OnnxfnError, first_line, root_cause
from onnxfn.specs.planned import Part
from onnxfn.specs.reports import SMALLEST_DYNAMIC_SIZE, Limit

ENDLESS = 1 << 40
"""A size that nobody has; torch says so when there is no upper end."""

# How torch.export says that a model compares a size with a number.
_SPECIALIZED = re.compile(
    r"\[(\d+)\]\.size\(\)\[(\d+)\] as dynamic but your code specialized it to be a constant \((\d+)\)"
)

LIMITS = "onnxfn.limits"
"""Where a captured graph's `meta` keeps the sizes that the model allows."""

INSIDE = "traced"
"""What the model is called inside the module that is traced; weights go by the names they have in the checkpoint."""


def capture(model: Any, part: Part) -> Any:
    """The graph of a model as an `onnx_ir.Model`, in opset 18, its inputs and outputs in the order of the plan.

    The weights of the graph are the model's own tensors, not copies. The model, its configuration and the process are
    left as they were found, also on failure. `graph.meta[LIMITS]` holds what the model allows of each size.
    Raises CaptureFailed, which says where in the model's source it stopped.
    """
    import torch.onnx._internal.exporter._core  # noqa: F401 - sets up its loggers, which `quiet` then finds

    attended, patched = with_attention(model, part.spec.call.attention), applied(part.spec.call.patches)
    with quiet(), unchanged_eval(model), attended, patched, _sparing():
        program = _program(model, part)
        told = expected_operators(program)
        graph = _translated(program)
    graph.meta[EXPECTED_OPERATORS] = told
    graph.meta[LIMITS] = _limits(program, part)
    return graph


@contextmanager
def _sparing() -> Iterator[None]:
    """torch.export without what takes a third of its time and is of no use to one trace.

    A cache of fake results makes each once more to see that it could, and again at every hit; traces of the stack tell
    where a node was made, which its module path tells.
    """
    import torch._dynamo.config
    import torch.fx.config

    told = torch.fx.config.do_not_emit_stack_traces
    torch.fx.config.do_not_emit_stack_traces = True
    try:
        with torch._dynamo.config.patch(fake_tensor_cache_enabled=False):
            yield
    finally:
        torch.fx.config.do_not_emit_stack_traces = told


def parameter_names(model: Any) -> Callable[[Any], str | None]:
    """Which parameter of a model a tensor is: by the memory that it looks at, so that tied ones have one name."""
    known = {_memory(tensor): name for name, tensor in reversed(list(model.state_dict(keep_vars=True).items()))}
    return lambda tensor: known.get(_memory(tensor)) if hasattr(tensor, "untyped_storage") and tensor.numel() else None


def _memory(tensor: Any) -> tuple[Any, ...]:
    return tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype


def _program(model: Any, part: Part) -> Any:
    import torch

    spec = part.spec
    sample = tensors_for(model, dummies(spec, {}))
    moving = tuple(dict.fromkeys(axes, torch.export.Dim.DYNAMIC) for axes in part.inputs.values())
    forward = flat_forward(model, spec)

    def tied(tensors: tuple[Any, ...]) -> tuple[Any, ...]:
        for holds in _ties(part, tensors):
            torch._check(holds)
        return forward(tensors)

    module = torch.nn.Module()
    setattr(module, INSIDE, model)
    module.forward = tied
    try:
        with torch.no_grad():
            return torch.export.export(module, (sample,), dynamic_shapes=(moving,), strict=False)
    except OnnxfnError:
        raise
    except Exception as problem:
        raise CaptureFailed(_fixed(model, part, problem) or _told(model, part, problem)) from problem


def _ties(part: Part, tensors: Sequence[Any]) -> list[Any]:
    """What the symbols say: axes of one name are equal, an axis that is a sum of axes is that sum."""
    sizes: dict[str, Any] = {}
    sums: list[tuple[Any, str]] = []
    ties: list[Any] = []
    for axes, tensor in zip(part.inputs.values(), tensors, strict=True):
        for index, symbol in axes.items():
            if terms(symbol) != (symbol,):
                sums.append((tensor.shape[index], symbol))
            elif symbol in sizes:
                ties.append(tensor.shape[index] == sizes[symbol])
            else:
                sizes[symbol] = tensor.shape[index]
    return ties + [size == value(symbol, sizes) for size, symbol in sums if sizes.keys() >= set(terms(symbol))]


def _translated(program: Any) -> Any:
    import torch
    from torch.onnx._internal.exporter import _core

    registry = _registry()
    try:
        with torch.no_grad():  # else torch looks for the gradient of a Scan when it traces again
            if not lower_in_place(program, registry):
                program = _core._prepare_exported_program_for_export(program, registry=registry)
            graph = _core._exported_program_to_onnx_program(insert_type_promotions(program), registry=registry).model
    except Exception as problem:
        raise CaptureFailed(f"no translation to ONNX: {first_line(root_cause(problem))}") from problem
    for weight in list(graph.graph.initializers.values()):
        weight.name = weight.name.removeprefix(f"{INSIDE}.")
    return graph


@cache
def _registry() -> Any:
    """The table torch operator -> ONNX, made once: it is the same for every export, and takes a quarter second."""
    from torch.onnx._internal.exporter import _registration

    from onnxfn.graphs.capture.translations import translations

    registry = _registration.ONNXRegistry.from_torchlib()
    for operator, function in translations().items():
        registry.register_op(operator, function)
    return registry


def _limits(program: Any, part: Part) -> tuple[Limit, ...]:
    """What the model's own branches allow of each moving size; from 2 up is no limit, as torch takes 0 and 1 apart."""
    tensors = [node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"][-len(part.inputs) :]
    limits: dict[str, Limit] = {}
    for axes, tensor in zip(part.inputs.values(), tensors, strict=True):
        for index, symbol in axes.items():
            if terms(symbol) != (symbol,):
                continue  # a sum has the limits of its terms
            size = tensor.shape[index]
            allowed = program.range_constraints.get(getattr(getattr(size, "node", None), "expr", None))
            if allowed is not None:
                limits.setdefault(symbol, Limit(symbol, *_whole(allowed)))
    return tuple(one for one in limits.values() if one.low > SMALLEST_DYNAMIC_SIZE or one.high is not None)


def _whole(allowed: Any) -> tuple[int, int | None]:
    low, high = int(allowed.lower), str(allowed.upper)
    return low, int(high) if high.isdecimal() and int(high) < ENDLESS else None


def _fixed(model: Any, part: Part, problem: Exception) -> str | None:
    """The axes that a model turned out to fix, in the plan's words."""
    names = list(part.inputs)
    found = [
        f"axis {axis} of {names[int(tensor)]!r} ({part.inputs[names[int(tensor)]][int(axis)]}) at {size}"
        for tensor, axis, size in _SPECIALIZED.findall(str(problem))
    ]
    if not found:
        return None
    return f"{type(model).__name__} fixes {', '.join(found)}; say so in the spec, or change the model"


def _told(model: Any, part: Part, problem: Exception) -> str:
    return (
        f"{type(model).__name__} could not be traced for {part.spec.task or part.name}, at {_place(problem)}: "
        f"{type(problem).__name__}: {first_line(root_cause(problem))}"
    )


def _place(problem: BaseException) -> str:
    """The last line of the model's own source before torch's."""
    import sympy
    import torch

    tracing = (
        *(str(Path(package.__file__ or "").parent) for package in (torch, sympy)),
        str(Path(__file__).parent),
        "<",
    )
    frames = traceback.extract_tb(problem.__traceback__)
    inside = [frame for frame in frames if not frame.filename.startswith(tracing)]
    frame = (inside or list(frames))[-1]
    return f"{frame.filename.rpartition('/')[2]}:{frame.lineno} ({frame.line})"

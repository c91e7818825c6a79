"""The conditions on sizes that a model's own code evaluates while it is traced, and the limits that follow.

A trace takes one side of each branch. torch keeps the conditions as guards, among hundreds of its own about strides and
broadcasting. Those of the model are the ones that are asked for outside of torch.
"""

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from inspect import currentframe
from itertools import islice
from typing import Any

from attrs import evolve

from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.graphs.capture import trace_settings
from onnxfn.graphs.capture.trace_settings import Evaluated, Noted, note
from onnxfn.graphs.sizes import size_factors
from onnxfn.models import patching
from onnxfn.models.forward import flat_forward, tensors_for
from onnxfn.models.model_state import unchanged_eval
from onnxfn.models.torch_modes import quiet, shapes_alone
from onnxfn.specs.algebra.dummies import dummies, known_sizes
from onnxfn.specs.algebra.planned import Part, PlannedSpec
from onnxfn.specs.axes import terms
from onnxfn.specs.axis_symbols import SMALLEST_DYNAMIC_SIZE, UNBOUNDED, fixed_sizes, ranges
from onnxfn.specs.conditions import (
    COUNT,
    Condition,
    as_ranges,
    is_condition,
    is_equality,
    is_range,
    is_true,
    numbers_in,
    range_conditions,
    range_of,
    symbols_of,
)
from onnxfn.specs.errors import CaptureFailed, raise_no_memory
from onnxfn.specs.plan.check_cases import batch_symbol, cases, in_case, resized
from onnxfn.specs.plan.size_cases import other_sides


@contextmanager
def noted_conditions(model: Any, noted: Noted) -> Iterator[None]:
    """Notes the formulas of sizes that the code outside of torch evaluates in this thread while it lasts."""
    import sympy
    import torch

    node_type, steps = torch_name("SymNode"), _files_of_steps()
    evaluate, text_of = node_type.evaluate, torch.SymInt.__repr__
    own_files = {each.forward.__code__.co_filename for each in model.modules() if hasattr(each.forward, "__code__")}

    def noting(size: Any, *arguments: Any, **named: Any) -> Any:
        formula = size.expr  # a number, once its size is fixed
        answer = evaluate(size, *arguments, **named)
        frame: Any = currentframe()
        while frame.f_back is not None and frame.f_code.co_filename in steps:
            frame = frame.f_back
        note(noted, frame, formula, bool(answer) if size.is_bool() else answer)
        return answer

    def note_lookup(size: Any, frame: Any) -> None:
        # Whether a dict has a size as a key, or what its digits are, no trace sees.
        if frame.f_code.co_filename in own_files and size.node.expr.free_symbols:
            note(noted, frame, sympy.Ne(size.node.expr, sympy.Symbol(COUNT)), answer=True)

    def hashed(size: Any) -> int:
        note_lookup(size, currentframe().f_back)  # type: ignore[union-attr]
        return hash((id(size.node.shape_env), text_of(size)))

    def written(size: Any) -> str:
        note_lookup(size, currentframe().f_back)  # type: ignore[union-attr]
        text: str = text_of(size)
        return text

    of_sizes = patching.replaced(torch.SymInt, "__hash__", hashed), patching.replaced(torch.SymInt, "__repr__", written)
    with patching.replaced(node_type, "evaluate", noting), of_sizes[0], of_sizes[1]:
        yield


def _files_of_steps() -> frozenset[str]:
    """The files through which the question of a line of code passes on its way to torch's formulas."""
    import torch

    of_torch = (torch, torch_name("sym_node"), torch_name("symbolic_shapes"), torch_name("size_records"))
    modules = (*of_torch, torch_name("builtin_min_max"), patching, size_factors, trace_settings)
    return frozenset(str(module.__file__) for module in modules) | {__file__}


def conditions(evaluated: Iterable[Evaluated], axes: Sequence[tuple[str, Any]]) -> tuple[Condition, ...]:
    """What was true of the sizes in a trace, in the names of axes; `count` is a size that depends on values."""
    import sympy

    by_text, printed = dict[str, Condition](), torch_name("PythonPrinter")().doprint
    sizes = [(size.node, axis) for axis, size in axes if hasattr(size, "node")]
    symbols = {node.expr: axis for node, axis in reversed(sizes)}
    for each in evaluated if sizes else ():
        formula = sizes[0][0].shape_env.replace(each.formula)
        was = sympy.Eq(formula, each.answer) if type(each.answer) is not bool else formula
        formula = was if each.answer is not False else sympy.Not(was)
        named = {size: sympy.Symbol(f"({symbols.get(size, COUNT)})", integer=True) for size in formula.free_symbols}
        text = printed(formula.xreplace(named)).replace("torch.sym_float", "float")
        if named and is_condition(text) and (max({0, *numbers_in(text)}) < UNBOUNDED or as_ranges(Condition(text))):
            by_text.setdefault(plain := ast.unparse(ast.parse(text)), Condition(plain, each.line))
    return tuple(by_text.values())


def nested(
    branches: Sequence[Condition], part: Part, conditions_at: Callable[[Part], Sequence[Condition]]
) -> list[Condition]:
    """What a module asks only where an equality of sizes is another than in the trace: `height != 8 or width != 8`.

    `conditions_at`: the conditions of another trace, at the sizes of a part.
    """
    known, bounds = known_sizes(part.spec, {}), ranges(part.spec)
    base = {name: size for name, size in known.items() if name not in fixed_sizes(part.spec)}

    def allowed(sizes: Mapping[str, int]) -> bool:
        return all(low <= sizes.get(name, low) <= high for name, (low, high) in bounds.items())

    def is_outer(text: str) -> bool:
        return is_equality(text) and {*symbols_of(text)} <= base.keys()

    texts, inner = {each.text for each in branches}, list[Condition]()
    outer = [each for each in branches if is_outer(each.text)]
    for each in islice(outer, 3):  # it grows; each is one more trace
        for case in other_sides(base, [each], allowed)[:1]:
            behind = conditions_at(evolve(part, spec=resized(part.spec, case.sizes)))
            new = [own for own in behind if own.text not in texts and {*symbols_of(own.text)} <= known.keys()]
            either = [Condition(f"{each.text} or {own.text}", own.line) for own in new if is_true(own.text, known)]
            texts |= {own.text for own in new}
            inner += either
            outer += [own for own in either if is_outer(own.text)]
    return inner


def guards(axes: Sequence[tuple[str, Any]]) -> tuple[Condition, ...]:
    """What torch took for true of the sizes in a trace: that one is 1, or is not, as its rules of broadcasting ask."""
    node = next((size.node for _, size in axes if hasattr(size, "node")), None)
    return conditions((Evaluated(each.expr, True, TORCH) for each in node.shape_env.guards), axes) if node else ()


def input_sizes(program: Any, part: Part) -> list[tuple[str, Any]]:
    """The dynamic axes of the inputs, each with its size in the trace."""
    return sizes_of([node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"], part)


def sizes_of(tensors: Sequence[Any], part: Part) -> list[tuple[str, Any]]:
    """The dynamic axes of the inputs, the last of these tensors, each with its size."""
    pairs = zip(part.inputs.values(), tensors[-len(part.inputs) :], strict=True)
    return [(symbol, tensor.shape[index]) for axes, tensor in pairs for index, symbol in axes.items()]


def at_other_sizes(part: Part) -> Part:
    """The part with a batch of 5 for its trace if a case of the check has its sizes: no case has those of a trace."""
    spec, batch, sizes = part.spec, batch_symbol(part.spec), known_sizes(part.spec, {})
    tried = [known_sizes(in_case(spec, case), {}) for case in cases(spec) if spec.derived is None]
    is_free = batch in sizes.keys() - fixed_sizes(spec).keys()
    return evolve(part, spec=resized(spec, {str(batch): 5})) if is_free and sizes in tried else part


# Limits

Ends = tuple[int, int | None]
"""The smallest and the largest size of an axis; None where there is no largest one."""

TORCH = "torch"
"""The line of a condition that no line of a module asks for."""

ANY_SIZE: Ends = (SMALLEST_DYNAMIC_SIZE, None)


def dynamic_size(spec: PlannedSpec, symbol: str) -> Any:
    """The sizes of an axis, for torch.export: those of its range, if it has one. Torch takes 0 and 1 for fixed."""
    from torch.export import Dim

    if symbol not in ranges(spec):
        return Dim.DYNAMIC
    low, high = ranges(spec)[symbol]
    return Dim.DYNAMIC(min=low if low > SMALLEST_DYNAMIC_SIZE else None, max=high if high < UNBOUNDED else None)


def range_limits(program: Any, part: Part, runs: Callable[[Mapping[str, int]], bool]) -> dict[str, Ends]:
    """The sizes of dynamic axes that the model's own branches allow, where these are not all; torch always has 2."""
    limits, bounds, sizes = dict[str, Ends](), ranges(part.spec), input_sizes(program, part)
    for symbol, size in sizes:
        allowed = program.range_constraints.get(getattr(getattr(size, "node", None), "expr", None))
        if allowed is not None and terms(symbol) == (symbol,):
            low, upper = int(allowed.lower), str(allowed.upper)
            high = int(upper) if upper.isdecimal() and int(upper) < UNBOUNDED else None
            # Torch has one range for axes that are equal in the trace: an end may be that of another axis.
            least, most = bounds.get(symbol, ANY_SIZE)
            tied = {name for name, each in sizes if str(each) == str(size)}
            others = [bounds[name] for name in (tied & bounds.keys()) - {symbol}]
            is_of_other = low > least and low in (end for end, _ in others) and runs({symbol: low - 1})
            low = max(least, SMALLEST_DYNAMIC_SIZE) if is_of_other else low
            if high and most and high < most and high in (end for _, end in others) and runs({symbol: high + 1}):
                high = most if most < UNBOUNDED else None
            is_asked_for = low <= least or _excludes(size.node, low - 1)
            limits.setdefault(symbol, (low if is_asked_for else max(least, SMALLEST_DYNAMIC_SIZE), high))
    return {name: limit for name, limit in limits.items() if limit[0] > SMALLEST_DYNAMIC_SIZE or limit[1] is not None}


def without_assumed(
    limits: Mapping[str, Ends], branches: Sequence[Condition], part: Part, runs: Callable[[Mapping[str, int]], bool]
) -> tuple[dict[str, Ends], list[Condition]]:
    """The limits without the ends that torch assumed, and these; `runs`: whether the module takes these sizes.

    Torch assumes of each size that it is not 1, or that it is: a quarter of a height of at most 7. The graph may be
    right beyond. So an end beyond which the module runs, and that no branch of it has, is no limit. The upper ends of a
    spec that is not derived are those of tables.
    """
    left, assumed, bounds = dict[str, Ends](), list[Condition](), ranges(part.spec)
    stated = [(symbols_of(each.text), each.text) for each in (*branches, *part.spec.limits)]

    def is_allowed(name: str, size: int) -> bool:
        excluded = (not is_true(text, {name: size}) for names, text in stated if names == (name,))
        least, most = bounds.get(name, ANY_SIZE)
        return max(least, SMALLEST_DYNAMIC_SIZE) <= size <= (most or size) and not any(excluded)

    lower = {name: low - 1 for name, (low, _) in limits.items() if is_allowed(name, low - 1)}
    ends = {name: high + 1 for name, (_, high) in limits.items() if high and part.spec.derived is not None}
    higher = {name: size for name, size in ends.items() if is_allowed(name, size)}
    # One run shows it for all axes if none is tied to another: a module of squares takes no single smaller side.
    are_taken = len(lower) > 1 and not any(len(names) > 1 for names, _ in stated) and runs(lower)
    for name, (low, high) in limits.items():
        no_low = name in lower and (are_taken or runs({name: lower[name]}))
        no_high = name in higher and runs({name: higher[name]})
        assumed += [Condition(f"{name} >= {low}", TORCH)] * no_low + [Condition(f"{name} <= {high}", TORCH)] * no_high
        left[name] = (SMALLEST_DYNAMIC_SIZE if no_low else low, None if no_high else high)
    return {name: ends for name, ends in left.items() if ends != ANY_SIZE}, assumed


def with_ends(limits: Mapping[str, Ends], largest: Mapping[str, int]) -> dict[str, Ends]:
    """The limits with the largest sizes of axes.

    >>> with_ends({"height": (4, None)}, {"height": 99, "width": 7})
    {'height': (4, 99), 'width': (2, 7)}
    """
    narrowed = {name: (limits.get(name, ANY_SIZE), end) for name, end in largest.items()}
    return {**limits, **{name: (low, min(high or end, end)) for name, ((low, high), end) in narrowed.items()}}


def runs_at(model: Any, part: Part, sizes: Mapping[str, int]) -> bool:
    """Whether a model runs at other sizes of some axes."""
    # At sizes below those of the trace, operators on values take less time than torch's steps to shapes alone.
    is_small = all(sizes[name] <= size for name, size in known_sizes(part.spec, {}).items() if name in sizes)
    return fake_outputs(model, part, sizes, is_small=is_small) is not None


def fake_outputs(model: Any, part: Part, sizes: Mapping[str, int], *, is_small: bool = False) -> tuple[Any, ...] | None:
    """The outputs of a model at other sizes of some axes, with values if these are small; None if it does not run."""
    import torch

    spec = resized(part.spec, sizes)
    tensors = tensors_for(model, spec, dummies(spec, {}))
    cached = torch_name("dynamo_settings").patch(fake_tensor_cache_enabled=True)
    try:
        # No size is a symbol, so torch's cache of results makes layers after the first cheap.
        shapes = nullcontext() if is_small else shapes_alone()
        with quiet(), cached, torch.no_grad(), unchanged_eval(model), shapes as mode:
            return flat_forward(model, spec)([mode.from_tensor(each) if mode else each for each in tensors])
    except (Exception, trace_settings.BranchOnValues) as error:  # noqa: BLE001 - a module may raise anything
        raise_no_memory(error)
        return None


def check_ranges(model: Any, part: Part, limits: Mapping[str, Ends]) -> None:
    """Raises CaptureFailed if the range of an axis goes beyond what the model allows."""
    for name, (smallest, largest) in ranges(part.spec).items():
        low, high = limits.get(name, ANY_SIZE)
        low = smallest if low == SMALLEST_DYNAMIC_SIZE else max(smallest, low)
        high = min(largest, high or largest)
        if (low, high) != (smallest, largest):
            sizes = f"the sizes {low} to {high}" if low < high else f"only the size {low}"
            raise CaptureFailed(
                f"the graph of {type(model).__name__} takes {sizes} of {name}, not {smallest} to {largest}; use "
                f"with_shapes(spec, {name}={(low, high) if low < high else low})"
            )


def stated_limits(limits: Mapping[str, Ends], part: Part) -> tuple[Condition, ...]:
    """The limits of the trace and those of the plan, of each axis the narrowest ones. What is fixed has one size."""
    of_plan, fixed, stated = part.spec.limits, fixed_sizes(part.spec), list[Condition]()
    own = {symbol for axes in part.inputs.values() for symbol in axes.values()}
    least_of = {name: low for name, (low, _) in ranges(part.spec).items() if low > 1 and name in own}
    for name in dict.fromkeys((*limits, *least_of, *(name for each in of_plan for name in symbols_of(each.text)))):
        (low, high), (least, most) = limits.get(name, ANY_SIZE), range_of(of_plan, name)
        low = max(low if low > SMALLEST_DYNAMIC_SIZE else 0, least, least_of.get(name, 0))
        highest = min((end for end in (high, most, fixed.get(name)) if end is not None), default=None)
        stated += range_conditions(name, low or None, highest) if name not in fixed or low == highest else ()
    with_lines = {each.text: each for each in of_plan}
    return (*(with_lines.get(each.text, each) for each in stated), *(each for each in of_plan if not is_range(each)))


def _excludes(node: Any, size: int) -> bool:
    """Whether a guard on an axis alone excludes a size of it: from several axes torch concludes too much."""
    # Strides, and that a size is not broadcast, torch asks for itself. Neither changes a value.
    own, guards = ("torch/_prims_common/", "torch/_refs/"), node.shape_env.guards
    try:
        every = (guard.expr for guard in guards if not any(each in str(guard.sloc.framework_loc) for each in own))
        return any(each.subs(node.expr, size) == False for each in every if each.free_symbols == {node.expr})  # noqa: E712
    except ZeroDivisionError:  # a guard on a remainder by this size
        return True

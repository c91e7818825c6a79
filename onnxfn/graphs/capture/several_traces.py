"""A module whose sizes are formulas, from traces of a model at several fixed sizes.

A trace with symbols ends where Python needs a number; a trace at fixed sizes does not. If a model calls the same
operators at all sizes, the numbers that differ from trace to trace are formulas of sizes that the traces show: 12, 13,
16 next to tensors of 12, 13, 16 tokens is their number.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import partial
from itertools import chain
from math import isclose, prod
from operator import add, attrgetter, floordiv, mul, sub
from typing import Any

import torch
from attrs import evolve
from numpy.random import default_rng

from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.models.model_state import unchanged_eval
from onnxfn.specs.algebra.dummies import known_sizes
from onnxfn.specs.algebra.planned import Part, PlannedSpec
from onnxfn.specs.axes import shape
from onnxfn.specs.axis_symbols import fixed_sizes
from onnxfn.specs.errors import CaptureFailed, InvalidSpec
from onnxfn.specs.plan.check_cases import resized
from onnxfn.specs.plan.size_cases import within

SPANS = (512, 32)
"""How much larger the sizes of other traces may be, the first whose traces join; a batch has the last."""

TRACES, HALVINGS, DRAWS = 5, 5, 100
"""How many sizes are traced, how often a model may halve one, and from how many random draws they are chosen."""

Numbers = tuple[Any, ...]
"""One number for each trace."""

Sizes = dict[Numbers, Any]
"""From what a size is in each trace to the first tensor that has it, as node and axis, or to the node of a formula."""


def joined_traces(model: Any, part: Part, exported: Callable[..., Any]) -> tuple[Any, dict[str, int]]:
    """The module of a trace at the sizes of a part, with formulas in place of numbers that are others at other sizes.

    Also the largest size of each axis beyond which the model is another. `exported(model, part, is_fixed=True)` is the
    program of a part. CaptureFailed if programs have other operators or constants, or a number is no simple formula.
    """

    def program(sizes: Mapping[str, int]) -> Any:
        try:
            with unchanged_eval(model):
                return exported(model, evolve(part, spec=resized(part.spec, sizes)), is_fixed=True)
        except InvalidSpec as error:  # such as fewer patches than images
            raise CaptureFailed(f"no inputs have the sizes of another trace: {error}") from error

    for span in SPANS:
        with suppress(*([CaptureFailed] if span > SPANS[-1] else [])):
            first, *others = [program(sizes) for sizes in _sizes(part.spec, span)]
            joined = _joined_programs([first, *others])
            break

    def joins(sizes: Mapping[str, int]) -> bool:
        with suppress(CaptureFailed):
            return bool(_joined_programs([first, program(sizes), *others]))
        return False

    return joined, _ends(part.spec, joins)


def _sizes(spec: PlannedSpec, span: int) -> list[Mapping[str, int]]:
    """The sizes of the traces, the first those of the spec; each axis is odd after each halving in some."""
    sizes, fixed = known_sizes(spec, {}), fixed_sizes(spec)
    spans = {name: SPANS[-1] if name == spec.batch else span for name in sizes if name not in fixed}

    def drawn(seed: int) -> list[Mapping[str, int]]:
        steps = default_rng(seed).integers(1, [*spans.values()], (TRACES - 1, len(spans))).tolist()
        larger = ({name: sizes[name] + step for name, step in zip(spans, each, strict=True)} for each in steps)
        return [within(each, spec.limits) for each in (sizes, *larger)]

    def odd(traces: Sequence[Mapping[str, int]]) -> int:
        sizes = ([each[name] for each in traces] for name in spans if name != spec.batch)
        halves = {tuple(size >> times & 1 for size in each) for each in sizes for times in range(HALVINGS)}
        return len([each for each in halves if len({*each}) > 1])

    return max(map(drawn, range(DRAWS)), key=odd)


def _ends(spec: PlannedSpec, joins: Callable[[Mapping[str, int]], bool]) -> dict[str, int]:
    """The largest size of each axis beyond which traces do not join: of each axis alone, then of all but the batch."""
    base, ends = known_sizes(spec, {}), dict[str, int]()
    moving = [name for name in base if name not in fixed_sizes(spec)]

    def grown(names: Sequence[str], step: int) -> Mapping[str, int]:
        larger = {name: min(base[name] + step, ends.get(name, base[name] + step)) for name in names}
        return within({**base, **larger}, spec.limits)

    def elements(sizes: Mapping[str, int]) -> int:
        return sum(prod(shape(each.axes, sizes)) for each in spec.inputs)

    for names in (*((name,) for name in moving), [name for name in moving if name != spec.batch]):
        # A far trace has no values, but its inputs are made: they have no more elements than this.
        far = max((2**power for power in range(22) if elements(grown(names, 2**power)) <= 1 << 22), default=1)
        if not joins(grown(names, far)):
            steps = bisect_left(range(far), True, key=lambda step: not joins(grown(names, step)))
            ends |= {name: grown(names, steps - 1)[name] for name in names}
    return ends


def _joined_programs(programs: Sequence[Any]) -> Any:
    """The module of the first of several programs, with formulas of sizes in place of numbers that differ."""
    modules = [program.module(check_guards=False) for program in programs]
    graphs = [list(module.graph.nodes) for module in modules]
    places = [{node: at for at, node in enumerate(graph)} for graph in graphs]
    sizes, shown = dict[Numbers, Any](), dict[Any, dict[Numbers, Any]]()
    for same in zip(*graphs, strict=False):
        _check_alike(modules, same, {len(graph) for graph in graphs})
        node, arguments = same[0], [(each.args, each.kwargs) for each in same]
        near = {of: size for each in node.all_input_nodes for of, size in shown[each].items()}
        node.args, node.kwargs = _joined(arguments, places, partial(_formula, sizes=sizes, near=near, before=node))
        shapes = (getattr(each.meta.get("val"), "shape", ()) for each in same)
        shown[node] = {of: (node, axis) for axis, of in enumerate(zip(*shapes, strict=False))}
        sizes |= {of: size for of, size in shown[node].items() if of not in sizes and len({*of}) > 1}
    modules[0].recompile()
    return modules[0]


def _check_alike(modules: Sequence[Any], same: Sequence[Any], lengths: set[int]) -> None:
    """Raises CaptureFailed if nodes at one place of several graphs are not the same operator, or constant."""
    if len(lengths) > 1 or len({(node.op, node.target) for node in same if node.op != "placeholder"}) > 1:
        raise CaptureFailed(f"the model calls other operators at other sizes, such as {same[0].target}")
    if same[0].op == "get_attr":
        tensors = [attrgetter(node.target)(module) for module, node in zip(modules, same, strict=True)]
        is_tensor = isinstance(tensors[0], torch.Tensor)  # a loop has a module of its own
        if not all(each is tensors[0] or (is_tensor and torch.equal(each, tensors[0])) for each in tensors):
            raise CaptureFailed(f"the constant {same[0].target} is another at other sizes")


def _joined(arguments: Sequence[Any], places: Sequence[Mapping[Any, int]], formula: Callable[[Numbers], Any]) -> Any:
    """The arguments of the first of several nodes, with formulas in place of numbers that differ."""
    pytree = torch_name("pytree")

    def joined(*same: Any) -> Any:
        if len({(type(each), of.get(each, each)) for of, each in zip(places, same, strict=True)}) == 1:
            return same[0]
        if all(type(each) in (int, float) for each in same):
            return formula(same)
        raise CaptureFailed(f"the model has other arguments at other sizes, such as {str(same[0])[:80]}")

    leaves, shapes = zip(*map(pytree.tree_flatten, arguments), strict=True)
    if any(each != shapes[0] for each in shapes):
        raise CaptureFailed(f"the model has other arguments at other sizes, such as {str(arguments[0])[:80]}")
    return pytree.tree_unflatten([*map(joined, *leaves)], shapes[0])


def _formula(values: Numbers, sizes: Sizes, near: Sizes, before: Any) -> Any:
    """A number of each trace as nodes of a formula of one size, else of two, if possible one of those `near` a node."""
    of_one = (formula for of, size in sizes.items() for formula in _of_one(values, of, size))
    pairs = ((*known, *of_node) for of_node in chain(near.items(), sizes.items()) for known in sizes.items())
    of_two = (formula for pair in pairs for formula in _of_two(values, *pair))
    same = [sizes[values]] if values in sizes and type(values[0]) is int else []
    by_chance = len({*values}) <= TRACES // 2  # a fraction of some size gives so few numbers
    formula = next(chain(same, of_two, of_one) if by_chance else chain(same, of_one, of_two), None)
    if formula is None:
        raise CaptureFailed(f"the model has numbers at several sizes that no simple formula gives: {values}")
    with before.graph.inserting_before(before):
        node = _nodes(before.graph, formula)
    if type(values[0]) is int:
        sizes[values] = node
    return node


def _of_one(values: Numbers, of: Numbers, size: Any) -> Iterator[Any]:
    """The numbers as a formula of a size: `(a * size + b) // c`, or a real number times a power of it."""
    if type(values[0]) is float:
        # Attention divides by the root of a size.
        for exponent in (1.0, -1.0, 0.5, -0.5) if all(of) else ():
            factor = values[0] / of[0] ** exponent
            if all(isclose(value, factor * each**exponent) for value, each in zip(values, of, strict=True)):
                yield (mul, (pow, (torch.sym_float, size), exponent), factor)
    elif values[0] < 0:
        yield from ((mul, formula, -1) for formula in _of_one(tuple(-value for value in values), of, size))
    else:
        slope = Fraction(values[-1] - values[0], of[-1] - of[0] or 1)
        more = values[0] * slope.denominator - of[0] * slope.numerator
        step = max(1, round(1 / slope)) if slope > 0 else 1
        for a, b, c in ((slope.numerator, more, slope.denominator), (1, 0, step), (1, step - 1, step)):
            if all((each * a + b) // c == value for value, each in zip(values, of, strict=True)):
                yield (floordiv, (add, (mul, size, a), b), c)


def _of_two(values: Numbers, of: Numbers, size: Any, of_other: Numbers, other: Any) -> Iterator[Any]:
    """The numbers as a formula of two sizes: their product, times a number; their difference, sum, or the larger."""
    products = tuple(map(mul, of, of_other))
    for function, of_numbers in ((sub, sub), (add, add), (torch.sym_max, max)):
        if values == tuple(map(of_numbers, of, of_other)):
            yield (function, size, other)
    if products[0] and values == tuple(each * (values[0] // products[0]) for each in products):
        yield (mul, (mul, size, other), values[0] // products[0])


def _nodes(graph: Any, formula: Any) -> Any:
    """The nodes of a formula: a number, a size `(node, axis)`, or a function and its operands."""
    match formula:
        case (function, *operands) if callable(function):
            return graph.call_function(function, tuple(_nodes(graph, each) for each in operands))
        case (node, int(axis)):
            return graph.call_function(torch.ops.aten.sym_size.int, (node, axis))
    return formula

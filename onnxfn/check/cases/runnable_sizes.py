"""The sizes at which PyTorch can run a model, found by running it: they depend on its configuration."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import chain, combinations
from math import lcm

from attrs import evolve
from toolz import memoize

from onnxfn.specs.algebra.planned import PlannedSpec
from onnxfn.specs.axis_symbols import AxisFacts, joined_axes
from onnxfn.specs.conditions import Condition, range_conditions, range_of, symbols_of
from onnxfn.specs.plan.size_cases import Sizes, within

STEPS = tuple(sorted(range(1, 65), key=lambda step: (step // (step & -step), step)))
"""The steps between two sizes of an axis that are tried: powers of two, which most are, then these times 3, 5, ..."""

GROWN = (1, 2, 3, 5, 8)
"""How often an axis grows by a step. A module whose halves are rounded up takes more than the multiples of its step."""

PARTS = 8
"""Sizes between the least of each axis alone and those of the trace are tried in so many parts."""


def runnable_limits(base: Sizes, runs: Callable[[Sizes], bool]) -> tuple[Condition, ...]:
    """The conditions on the sizes of a module's axes; `runs` is whether it runs at some sizes, and true of `base`."""
    # An axis that cannot move alone moves with another, or has one size. A free axis is 1 while later ones move.
    runs = memoize(runs, key=lambda arguments, _: tuple(arguments[0].items()))
    limits, alone, small, free = list[Condition](), dict[str, int | None](), dict(base), dict[str, int]()
    for name in base:
        alone[name] = _step(small, (name,), runs)
        small |= {name: 1} if alone[name] == 1 and runs({**small, name: 1}) else {}
    common = _common_steps(base, {name: step for name, step in alone.items() if step}, runs)
    for number, name in enumerate(base):
        partners = ((other,) for other in base if other != name)
        with_one = ((_step(base, (name, *others), runs), others) for others in partners)
        moving = chain([(common.get(name, alone[name]), ())], with_one)
        step, others = next(((step, others) for step, others in moving if step), (None, ()))
        if step is None:
            limits += range_conditions(name, *_ends(base, name, runs))
            continue
        with_earlier = [other for other in others if [*base].index(other) < number]
        pairs = ((other, base[name] - base[other]) for other in with_earlier)
        differences = ((other, f" {'+' if more > 0 else '-'} {abs(more)}" if more else "") for other, more in pairs)
        limits += [Condition(f"{name} == {other}{more}") for other, more in differences]
        if not with_earlier and step > 1:
            limits.append(Condition(f"{name} % {step} == {base[name] % step}"))
        free |= {} if others else {name: step}
    return (*limits, *(Condition(f"{name} >= {size}") for name, size in _least(base, free, runs).items()))


def _ends(base: Sizes, name: str, runs: Callable[[Sizes], bool]) -> tuple[int | None, int]:
    """The ends of an axis that runs at half its size, as with a table of so many rows; else its size and its size."""
    size = base[name]

    def fails(other: int) -> bool:
        return not runs({**base, name: other})

    if size == 1 or fails(size - 1) or fails(-(-size // 2)):
        return size, size
    low = 1 + bisect_left(range(1, size), True, key=lambda other: not fails(other))
    return low if low > 1 else None, size + bisect_left(range(size + 1, 4 * size + max(GROWN)), True, key=fails)


def _step(base: Sizes, names: tuple[str, ...], runs: Callable[[Sizes], bool]) -> int | None:
    """By how much some axes together can grow, as often as GROWN says and farther: the first of STEPS, or None."""
    for step in STEPS:  # to 4 times its size at most: an image has as many patches of 16 as one that is 15 larger
        counts = (*GROWN, *(-(-far // step) for far in (17, 37, 71) if far < 3 * min(base[name] for name in names)))
        if all(runs({**base, **{name: base[name] + count * step for name in names}}) for count in counts):
            return step
    return None


def _common_steps(base: Sizes, alone: Sizes, runs: Callable[[Sizes], bool]) -> dict[str, int]:
    """The steps of axes that move alone by others: those with which two axes run together."""
    if runs({**base, **{name: base[name] + step for name, step in alone.items()}}):
        return {}
    steps = dict(alone)
    for names in combinations(alone, 2):
        step, least = _step(base, names, runs) or 1, lcm(*(alone[name] for name in names))
        steps |= {name: lcm(steps[name], step) for name in names if step > least}
    return steps


def _least(base: Sizes, steps: Sizes, runs: Callable[[Sizes], bool]) -> Sizes:
    """The smallest sizes, in steps, at which a module runs; without the axes that alone take their smallest size."""
    least = dict[str, int]()
    for name, step in steps.items():
        smaller = range((base[name] - 1) % step + 1, base[name], step)
        if smaller and not runs({**base, name: smaller[0]}):
            each = ({**base, name: size} for size in smaller)
            least[name] = smaller[0] + bisect_left([*each], True, key=runs) * step

    def between(part: int) -> Sizes:
        whole = {name: (base[name] - size) * part // (PARTS * steps[name]) for name, size in least.items()}
        return {name: base[name] - count * steps[name] for name, count in whole.items()}

    return next(sizes for sizes in map(between, range(PARTS, -1, -1)) if runs({**base, **sizes}))


def with_limits(spec: PlannedSpec, limits: Sequence[Condition]) -> PlannedSpec:
    """A planned spec with more limits of its sizes; an axis that they fix at one size is a number in the graph."""
    return evolve(spec, axes=joined_axes(spec.axes, fixed_axes(limits)), limits=(*spec.limits, *limits))


def fixed_axes(limits: Sequence[Condition]) -> tuple[AxisFacts, ...]:
    """The axes that limits fix at one size."""
    ends = {name: range_of(limits, name) for limit in limits for name in symbols_of(limit.text)}
    return tuple(AxisFacts(name, low=low, high=high) for name, (low, high) in ends.items() if low == high)


def grown(sizes: Sizes, limits: Sequence[Condition]) -> Sizes:
    """The smallest sizes within the limits that have about these proportions, and are not smaller."""
    ends = [(range_of(limits, name)[0], size) for name, size in sizes.items()]
    low, side = max(ends, key=lambda pair: pair[0] / pair[1], default=(1, 1))
    return within({name: -(-size * max(low, side) // side) for name, size in sizes.items()}, limits)

"""The steps in which a module takes the sizes of its axes, found by running it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from itertools import chain, combinations
from math import lcm

from onnxfn.specs.conditions import Condition, range_conditions
from onnxfn.specs.plan.size_cases import Sizes

STEPS = tuple(sorted(range(1, 65), key=lambda step: (step.bit_count(), step)))
"""The steps between two sizes of an axis that are tried: first powers of two, which most are."""

GROWN = (1, 2, 3, 5, 8)
"""How often an axis grows by a step. A module whose halves are rounded up takes more than the multiples of its step."""


def found_limits(base: Sizes, runs: Callable[[Sizes], bool]) -> tuple[Condition, ...]:
    """The conditions on the sizes of a module's axes; `runs` is whether it runs at some sizes, and true of `base`.

    An axis that cannot move alone moves with another. One that moves with none has one size. Two axes that can move
    alone, and not together, have the step with which they can. An axis that takes any size is 1 while later ones move.

    >>> def fits(sizes):
    ...     return sizes["h"] % 4 == 0 and sizes["w"] == sizes["h"] + 8
    >>> [each.text for each in found_limits({"h": 8, "w": 16, "n": 3}, fits)]
    ['h % 4 == 0', 'w == h + 8']
    >>> [each.text for each in found_limits({"h": 2, "w": 2}, lambda of: of["h"] * of["w"] % 2 == 0)]
    ['w % 2 == 0']
    """
    limits, alone, small = list[Condition](), dict[str, int | None](), dict(base)
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
            limits += range_conditions(name, base[name], base[name])
            continue
        with_earlier = [other for other in others if [*base].index(other) < number]
        limits += [_difference(base, other, name) for other in with_earlier]
        if not with_earlier and step > 1:
            limits.append(Condition(f"{name} % {step} == {base[name] % step}"))
        if not others and not with_earlier and not runs({**base, name: 1}) and step == 1:
            limits.append(Condition(f"{name} >= {_least(base, name, runs)}"))
    return tuple(limits)


def _step(base: Sizes, names: tuple[str, ...], runs: Callable[[Sizes], bool]) -> int | None:
    """By how much some axes together can grow, as often as GROWN says: the first of STEPS, or None."""
    for step in STEPS:
        if all(runs({**base, **{name: base[name] + count * step for name in names}}) for count in GROWN):
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


def _least(base: Sizes, name: str, runs: Callable[[Sizes], bool]) -> int:
    """The smallest size of an axis at which a module runs, if it runs at all larger ones."""
    return bisect_left(range(base[name]), True, key=lambda size: runs({**base, name: size}))


def _difference(base: Sizes, first: str, second: str) -> Condition:
    """That the sizes of two axes differ by as much as in `base`."""
    more = base[second] - base[first]
    return Condition(f"{second} == {first} {'+' if more > 0 else '-'} {abs(more)}" if more else f"{second} == {first}")

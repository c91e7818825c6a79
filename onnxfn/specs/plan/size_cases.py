"""Sizes that try what a trace took for true: both sides of each condition, and sizes far from the sample."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count, islice
from math import gcd, prod
from operator import itemgetter

from attrs import frozen
from toolz import unique

from onnxfn.specs.conditions import Condition, alternatives, is_true, numbers_in, symbols_of

Sizes = Mapping[str, int]
"""From the name of an axis to its size."""

NEAR, GROWTH = 64, 1.25
"""Sizes up to this distance are tried one by one; farther ones each this much larger than the one before."""

MOST_GROWTH, FAR_GROWTH = 16, 4
"""How many times the elements of the sample a case may have, and the farthest one of all."""

FEW_ELEMENTS = 2048
"""Elements that each case may have."""

SMALL = (1, 2, 3, 4, 5, 7)
"""The small sizes that are tried of each axis."""

MOST_DIVIDED = 1 << 12
"""The largest number in a condition whose divisors are tried as sizes."""

MOST_CASES = 24
"""The cases for conditions that a check has at most."""


@frozen
class SizeCase:
    """Sizes to check, and what they try: `other side of swin.py:160`, `height=1`, `far sizes`."""

    reason: str
    sizes: Sizes


def other_sides(base: Sizes, conditions: Sequence[Condition], allowed: Callable[[Sizes], bool]) -> tuple[SizeCase, ...]:
    """The sizes nearest to `base` on the other side of each condition, at its border, and the farthest of all."""
    affordable, far_affordable = (_affordable(base, allowed, growth) for growth in (MOST_GROWTH, FAR_GROWTH))
    tried = [case for each in conditions for case in _sides(base, each, affordable)]
    far = [case for each in conditions for case in _far_sides(base, each, far_affordable)]
    return (*_distinct((*tried[: MOST_CASES - 1], *sorted(far, key=lambda case: _elements(case.sizes))[-1:]), base),)


def unreached(base: Sizes, conditions: Sequence[Condition], allowed: Callable[[Sizes], bool]) -> list[Condition]:
    """The conditions whose other side has allowed sizes, all of them too large for a case."""
    affordable = _affordable(base, allowed, MOST_GROWTH)
    tried = [each for each in conditions if not any(_sides(base, each, affordable))]
    return [each for each in tried if any(_sides(base, each, allowed))]


def small_and_far_sizes(base: Sizes, allowed: Callable[[Sizes], bool]) -> tuple[SizeCase, ...]:
    """Sizes that need no condition: each axis or all small, twice as large, the last two exchanged, unequal primes.

    >>> [case.reason for case in small_and_far_sizes({"n": 9}, lambda sizes: sizes["n"] > 4)]
    ['n=5', 'n=7', 'larger sizes', 'prime sizes']
    """
    last = [*base][-2:]
    small = (SizeCase(f"{name}={size}", {**base, name: size}) for name in base for size in SMALL if size < base[name])
    of_all = {
        "sizes of 1": dict.fromkeys(base, 1),
        "small sizes": {name: min(size, 2 + number) for number, (name, size) in enumerate(base.items())},
        "larger sizes": {name: 2 * size for name, size in base.items()},
        "exchanged sizes": {**base, **dict(zip(last, [base[name] for name in reversed(last)], strict=True))},
        "prime sizes": dict(zip(base, _primes_above(base.values()), strict=True)),
    }
    every = (*small, *(SizeCase(reason, sizes) for reason, sizes in of_all.items()))
    return tuple(_distinct((case for case in every if allowed(case.sizes)), base))


def nearest(base: Sizes, name: str, fits: Callable[[Sizes], bool], marks: Iterable[int] = ()) -> Iterator[Sizes]:
    """The nearest sizes above and below `base`, or `marks`, that fit, where one axis differs; none without any."""
    for direction in (1, -1):
        if (size := _nearest(base, name, fits, direction, marks)) is not None:
            yield {**base, name: size}


def within(sizes: Sizes, conditions: Sequence[Condition]) -> Sizes:
    """The sizes, moved to near ones for which all conditions are true, where there are such; larger ones first."""
    for condition in conditions:
        for name in reversed(symbols_of(condition.text)):
            if name in sizes and not is_true(condition.text, sizes):
                fits = _met(condition, conditions[: conditions.index(condition)])
                sizes = next(nearest(sizes, name, fits, _marks(sizes, condition)), sizes)
    return sizes


def harmful(
    conditions: Sequence[Condition], failed: Sequence[Sizes], passed: Sequence[Sizes], *, all_alike: bool = True
) -> tuple[Condition, ...]:
    """The limits that leave out the sizes that failed; none if no limits explain them."""
    # A condition that is true wherever the file passed comes first; without any, the end of an axis above these sizes.
    conditions = [each for each in conditions if all({*symbols_of(each.text)} <= {*sizes} for sizes in failed)]
    harmless = {each for each in conditions if not all(is_true(each.text, sizes) for sizes in passed)}
    unexplained = [sizes for sizes in failed if all(is_true(each.text, sizes) for each in conditions)]
    limits: list[Condition] = []
    for sizes in sorted(failed, key=lambda sizes: sum(not is_true(each.text, sizes) for each in conditions)):
        if all(is_true(each.text, sizes) for each in limits):
            untrue = [each for each in conditions if not is_true(each.text, sizes)]
            untrue = [each for each in untrue if each not in harmless] or untrue
            limits += untrue or _lower_end(sizes, unexplained, passed, all_alike=all_alike)
    return tuple(limits) if all(not all(is_true(each.text, sizes) for each in limits) for sizes in failed) else ()


def simplest(
    conditions: Sequence[Condition], failed: Sequence[Sizes], passed: Sequence[Sizes]
) -> tuple[Condition, ...]:
    """The shortest conditions, untrue nowhere where it passed, that leave out the sizes that failed; none for no such.

    >>> simplest([Condition("n <= 10"), Condition("n + 1 <= 11")], [{"n": 11}], [{"n": 1}])
    (Condition(text='n <= 10'),)
    """
    of_axes = (each for each in conditions if all({*symbols_of(each.text)} <= {*sizes} for sizes in failed))
    by_length = sorted(of_axes, key=lambda each: len(each.text))
    useful = [each for each in by_length if all(is_true(each.text, sizes) for sizes in passed)]
    first = [next((each for each in useful if not is_true(each.text, sizes)), None) for sizes in failed]
    return tuple(dict.fromkeys(each for each in first if each is not None)) if None not in first else ()


def _lower_end(sizes: Sizes, failed: Sequence[Sizes], passed: Sequence[Sizes], *, all_alike: bool) -> list[Condition]:
    """The smallest size of an axis above all that failed, of all sizes or of those that differ in it alone."""
    ends = list[tuple[int, str]]()
    for name in sizes:
        alike = [each for each in (*failed, *passed) if all_alike or {**each, name: 0} == {**sizes, name: 0}]
        worst = max(each[name] for each in failed if each in alike)
        above = [each[name] for each in passed if each in alike and each[name] > worst]
        if above and (not all_alike or len(above) == len(passed)):
            ends.append((min(above), name))
    return [Condition(f"{name} >= {least}") for least, name in sorted(ends, key=itemgetter(0))[:1]]


def _sides(base: Sizes, condition: Condition, affordable: Callable[[Sizes], bool]) -> Iterator[SizeCase]:
    """The nearest sizes on the other side of a condition, and those at its border; all its axes move if one cannot."""
    names, marks = [name for name in symbols_of(condition.text) if name in base], _marks(base, condition)
    pairs = [(name, sizes) for name in names for sizes in nearest(base, name, _leaves(condition, affordable), marks)]
    for name, sizes in sorted(pairs, key=lambda pair: _distance(base, pair[1]))[:1]:
        border = {**base, name: sizes[name] + (1 if sizes[name] < base[name] else -1)}
        yield SizeCase(f"other side of {condition}", sizes)
        if affordable(border):
            yield SizeCase(f"border of {condition}", border)
    if not pairs:
        together = [case.sizes for case in _far_sides(base, condition, affordable)]
        together = together or list(_two_moved(base, condition, names, _leaves(condition, affordable)))
        apart = within(base, [Condition(f"not ({each})") for each in alternatives(condition.text)])
        together = together or [apart] * _leaves(condition, affordable)(apart)
        for sizes in sorted(together, key=lambda sizes: _distance(base, sizes))[:1]:
            yield SizeCase(f"other side of {condition}", sizes)


def _two_moved(
    base: Sizes, condition: Condition, names: Sequence[str], fits: Callable[[Sizes], bool]
) -> Iterator[Sizes]:
    """Sizes that fit where the first axis and another one differ: `height * width == 196` at 14 and 14."""
    numbers = [number for number in numbers_in(condition.text) if 0 < number <= MOST_DIVIDED]
    divisors = {each for number in numbers for each in range(1, number + 1) if number % each == 0}
    marks = {divisor * number for divisor in divisors for number in (1, *numbers)}
    for size in sorted(marks) if len(names) > 1 else ():
        for name in names[1:]:
            yield from nearest({**base, names[0]: size}, name, fits, marks)


def _far_sides(base: Sizes, condition: Condition, affordable: Callable[[Sizes], bool]) -> list[SizeCase]:
    """Sizes on the other side of a condition where all its axes grow, or shrink, in their proportions."""
    names, leaves = [name for name in symbols_of(condition.text) if name in base], _leaves(condition, affordable)
    sizes = _tries(base[names[0]], ()) if names else ()
    scaled = ({name: max(1, base[name] * size // max(1, base[names[0]])) for name in names} for size in sizes)
    together = [{**base, **each} for each in scaled]
    return [SizeCase(f"far on the other side of {condition}", sizes) for sizes in together if leaves(sizes)]


def _leaves(condition: Condition, affordable: Callable[[Sizes], bool]) -> Callable[[Sizes], bool]:
    """Whether sizes are on the other side of a condition."""
    return lambda sizes: affordable(sizes) and not is_true(condition.text, sizes)


def _distance(base: Sizes, sizes: Sizes) -> int:
    return sum(abs(size - base[name]) for name, size in sizes.items())


def _affordable(base: Sizes, allowed: Callable[[Sizes], bool], growth: int) -> Callable[[Sizes], bool]:
    most = max(growth * _elements(base), FEW_ELEMENTS)
    return lambda sizes: _elements(sizes) <= most and allowed(sizes)


def _elements(sizes: Sizes) -> int:
    return prod(max(1, size) for size in sizes.values())


def _met(condition: Condition, earlier: Sequence[Condition]) -> Callable[[Sizes], bool]:
    """Whether sizes meet a condition, and those of the earlier ones that they can: a pair of equal axes moves alone."""
    return lambda sizes: is_true(condition.text, sizes) and all(is_true(each.text, sizes) for each in earlier)


def _marks(base: Sizes, condition: Condition) -> set[int]:
    """Sizes where a condition may change: its numbers, the sizes of the other axes, and their neighbors."""
    return {size + step for size in (*numbers_in(condition.text), *base.values()) for step in (-1, 0, 1)}


def _tries(size: int, marks: Iterable[int]) -> list[int]:
    """The sizes that are tried in place of one, the smallest first."""
    far, tried = size + NEAR, [*range(max(1, size - NEAR), size + NEAR), *marks]
    while far < MOST_GROWTH * size:
        tried.append(far)
        far = int(far * GROWTH) + 1
    below = size - NEAR
    while below > 0:
        tried.append(below)
        below = int(below / GROWTH) - 1
    return sorted({each for each in (*tried, 1, MOST_GROWTH * size) if each > 0})


def _nearest(base: Sizes, name: str, fits: Callable[[Sizes], bool], direction: int, marks: Iterable[int]) -> int | None:
    """The nearest size of an axis in a direction that fits."""
    before = base[name]
    for size in _tries(base[name], marks)[::direction]:
        if (size - base[name]) * direction > 0:
            if fits({**base, name: size}):
                return _bisected(before, size, lambda tried: fits({**base, name: tried}))
            before = size
    return None


def _bisected(misses: int, hits: int, fits_at: Callable[[int], bool]) -> int:
    """A size between two that fits and whose neighbor does not; `hits` fits."""
    while abs(hits - misses) > 1:
        middle = (hits + misses) // 2
        hits, misses = (middle, misses) if fits_at(middle) else (hits, middle)
    return hits


def _distinct(every: Iterable[SizeCase], base: Sizes) -> Iterator[SizeCase]:
    """The cases without those of equal sizes, and of the sizes of the trace."""
    alike = unique((SizeCase("the trace", base), *every), key=lambda case: frozenset(case.sizes.items()))
    return islice(alike, 1, None)


def _primes_above(sizes: Iterable[int]) -> list[int]:
    """A prime above each size, all different."""
    primes: list[int] = []
    for size in sizes:
        above = (each for each in count(size + 1) if all(gcd(each, other) == 1 for other in range(2, each)))
        primes.append(next(prime for prime in above if prime not in primes))
    return primes

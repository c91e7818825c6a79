"""The bits of each weight within a limit, by what each step saves for a byte; divergences are taken to add up."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from attrs import frozen

from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.quantization import Within


@frozen
class Storage:
    """A way to store a weight: its bits (None for floats), its bytes, and the KL divergence of a model with it."""

    bits: int | None
    bytes: int
    kl: float


def chosen_storage(table: Mapping[str, Sequence[Storage]], limit: Within) -> dict[str, Storage]:
    """One way to store each weight: all bytes, or all divergences, are at most a limit. InvalidSpec if none fits."""
    # Steps to more bits are taken by what they save for a byte, so more bytes never have a larger divergence.
    hulls = {name: _hull(ways) for name, ways in table.items()}
    chosen = {name: hull[0] for name, hull in hulls.items()}
    steps = [(name, *pair) for name, hull in hulls.items() for pair in pairwise(hull)]
    steps.sort(key=lambda step: -_saved(*step[1:]))
    by_kl = limit.measure == "kl"
    total: Callable[[Mapping[str, Storage]], float] = total_kl if by_kl else total_bytes
    for name, old, new in steps:
        more = {**chosen, name: new}
        is_wanted = total(chosen) > limit.most if by_kl else total(more) <= limit.most
        chosen = more if chosen[name] is old and is_wanted else chosen
    for name, old, new in reversed(steps) if by_kl else ():  # large steps may make small ones needless
        fewer = {**chosen, name: old}
        chosen = fewer if chosen[name] is new and total(fewer) <= limit.most else chosen
    if total(chosen) > limit.most:
        least = Within(limit.measure, total(chosen))
        raise InvalidSpec(f"within={str(limit)!r} cannot be reached; the least possible is {str(least)!r}")
    return chosen


def total_bytes(chosen: Mapping[str, Storage]) -> int:
    """The bytes of all weights."""
    return sum(storage.bytes for storage in chosen.values())


def total_kl(chosen: Mapping[str, Storage]) -> float:
    """The divergences of all weights together."""
    return sum(storage.kl for storage in chosen.values())


def _saved(old: Storage, new: Storage) -> float:
    """The divergence that a step saves for a byte."""
    return (old.kl - new.kl) / (new.bytes - old.bytes)


def _hull(ways: Iterable[Storage]) -> list[Storage]:
    """The ways with growing bytes between which each step saves something, and less for a byte than the one before."""
    hull: list[Storage] = []
    for way in sorted(ways, key=lambda each: (each.bytes, each.kl)):
        if hull and way.kl >= hull[-1].kl:
            continue
        while len(hull) > 1 and _saved(*hull[-2:]) <= _saved(hull[-1], way):
            hull.pop()
        hull.append(way)
    return hull

"""Dummy tensors, on numpy: each depends on the seed, its name and its shape, and on nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any
from zlib import crc32

import numpy as np
from attrs import evolve
from numpy.random import Generator as Random
from numpy.typing import NDArray

from onnxfn.specs.axes import names, shape
from onnxfn.specs.errors import InvalidSpec, UnknownName, unknown
from onnxfn.specs.fixed_axes import fixed_sizes
from onnxfn.specs.functions import resolve
from onnxfn.specs.planned import AnySpec
from onnxfn.specs.records import DummySize, Generator, Getter, InputSpec, NestedDummy
from onnxfn.specs.spec import Dummies, ExportSpec

Array = NDArray[Any]
Fill = Callable[..., Array]


def generates(name: str, function: str, **arguments: Any) -> ExportSpec:
    """A spec that says how a kind of dummy is made: `generates("ids", "integers", high=from_config("vocab_size"))`."""
    return ExportSpec(dummies=Dummies(generators=(Generator(name, function, arguments),)))


def sized(**sizes: int | Getter) -> ExportSpec:
    """A spec that says the sizes of dummies: `sized(batch_size=2, height=from_config("sample_size"))`."""
    return ExportSpec(dummies=Dummies(sizes=tuple(DummySize(name, value) for name, value in sizes.items())))


def padded(side: str) -> ExportSpec:
    """A spec whose masks are padded at this side: `right`, `left` or `none`."""
    return generates("padding_mask", "mask", padding=side)


def dummies(spec: AnySpec, sizes: Mapping[str, int], *, seed: int = 0) -> dict[str, Array]:
    """One array an input of a planned spec; `sizes` override the spec's own, an unknown size is UnknownName."""
    every = known_sizes(spec, sizes)
    return {one.name: dummy(spec, one, every, seed=seed) for one in spec.inputs}


def dummy(spec: AnySpec, one: InputSpec, sizes: Mapping[str, int], *, seed: int = 0) -> Array:
    """The array of one input; the same for the same seed, name and shape, whatever else the spec holds."""
    generator = next((made for made in spec.dummies.generators if made.name == one.generator), None)
    if generator is None:
        known = [made.name for made in spec.dummies.generators]
        raise unknown("generator", one.generator, known, of=f"input {one.name!r} of {spec.name or 'this spec'}")
    random = np.random.default_rng([seed, crc32(one.name.encode())])
    shape = _shaped(spec, one, sizes)
    try:
        fill: Fill = resolve(generator.function, FILLS, kind="dummy function")
        made = fill(random, shape, **_arguments(spec, one, generator, sizes, seed))
    except (TypeError, ValueError) as problem:
        raise InvalidSpec(f"no {generator} can be made for {one.name!r} of {list(shape)}: {problem}") from None
    return made.astype(dtype_of(spec, one))


def known_sizes(spec: AnySpec, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes that the inputs of a spec are made of: its own, those that its shapes fix, then the given ones."""
    used = tuple(dict.fromkeys(name for one in spec.inputs for name in names(one.axes)))
    for name, size in sizes.items():
        if name not in used:
            raise unknown("size", name, used, of=spec.name or "this spec")
        if size < 0:
            raise InvalidSpec(f"size {name!r} is {size}; a size is 0 or more")
    return planned_sizes(spec, used) | dict(sizes)


def planned_sizes(spec: AnySpec, used: Iterable[str]) -> dict[str, int]:
    """The sizes among these that a planned spec says; an axis that does not move has the size at which it is fixed."""
    told = {one.name: one.value for one in spec.dummies.sizes if isinstance(one.value, int)}
    told |= fixed_sizes(spec)
    return {name: size for name, size in told.items() if name in used}


def integers(random: Random, shape: tuple[int, ...], *, high: int, low: int = 0) -> Array:
    """Whole numbers from `low` up to, not including, `high`."""
    return random.integers(low, high, shape)


def ids_with_end(random: Random, shape: tuple[int, ...], *, high: int, end: int) -> Array:
    """Whole numbers below `high`, the last of each row being `end` and no other."""
    made = random.integers(0, high - 1, shape)
    made += made >= end
    made[..., -1:] = end
    return made


def ids_with_image(random: Random, shape: tuple[int, ...], *, high: int, image: int, count: int) -> Array:
    """Whole numbers below `high`, of which the first `count` of each row, and no others, are the mark of an image."""
    if shape[-1] < count:
        raise ValueError(f"an image stands for {count} tokens")
    made = integers(random, shape, high=high - 1)
    made += made >= image
    made[..., :count] = image
    return made


def whole_floats(random: Random, shape: tuple[int, ...], *, high: int) -> Array:
    """Real numbers that are whole, from 0 up to, not including, `high`."""
    return random.integers(0, high, shape).astype(np.float64)


def uniform(random: Random, shape: tuple[int, ...], *, low: float = -1.0, high: float = 1.0) -> Array:
    """Real numbers between `low` and `high`."""
    return random.uniform(low, high, shape)


def normal(random: Random, shape: tuple[int, ...], *, deviation: float = 1.0) -> Array:
    """Real numbers around 0."""
    return random.normal(0.0, deviation, shape)


def constant(_: Random, shape: tuple[int, ...], *, value: float = 0) -> Array:
    """One value everywhere."""
    return np.full(shape, value)


def positions(_: Random, shape: tuple[int, ...], *, mask: Array | None = None) -> Array:
    """0, 1, 2, ... along the last axis, or the place of each of the last tokens among those that a mask keeps.

    >>> positions(np.random.default_rng(0), (1, 3), mask=np.array([[0, 0, 1, 1, 1]])).tolist()
    [[0, 1, 2]]
    """
    if mask is None:
        return np.broadcast_to(np.arange(shape[-1]), shape).copy()
    places: Array = np.maximum(mask.cumsum(axis=-1) - 1, 0)
    return places[..., places.shape[-1] - shape[-1] :]


def mask(_: Random, shape: tuple[int, ...], *, padding: str = "right") -> Array:
    """1 for a token and 0 for padding, which stands at the `right`, the `left`, or nowhere (`none`).

    The last axis is the sequence. Of several rows the first has no padding, the others more and more, at most half.

    >>> mask(np.random.default_rng(0), (2, 4), padding="left").tolist()
    [[1, 1, 1, 1], [0, 1, 1, 1]]
    """
    if padding not in ("right", "left", "none"):
        raise unknown("padding", padding, ("right", "left", "none"))
    length = shape[-1]
    if padding == "none" or length < 2:  # noqa: PLR2004 - a sequence of one token has no room for padding
        return np.ones(shape, dtype=np.int64)
    rows = int(np.prod(shape[:-1]))
    order = np.arange(rows) + (rows == 1)
    padding_of = np.maximum((order * length) // (2 * rows), order > 0)
    kept = (length - padding_of).reshape(shape[:-1])
    steps = np.arange(length)
    tokens = steps < kept[..., None] if padding == "right" else steps >= length - kept[..., None]
    return tokens.astype(np.int64)


def first_one(_: Random, shape: tuple[int, ...]) -> Array:
    """1 at the start of the last axis and 0 elsewhere."""
    made = np.zeros(shape, dtype=np.int64)
    made[..., :1] = 1
    return made


def grids(_: Random, shape: tuple[int, ...], *, mask: Array) -> Array:
    """Rows and columns of grids, each of as many places as a row of the mask keeps; the last axis is of size 2.

    >>> grids(np.random.default_rng(0), (2, 2), mask=np.array([[1] * 12, [1] * 10 + [0] * 2])).tolist()
    [[3, 4], [2, 5]]
    """
    made = np.ones(shape, dtype=np.int64)
    for row, places in enumerate(mask.sum(axis=-1).tolist()):
        height = max(one for one in range(1, int(places**0.5) + 1) if places % one == 0)
        made[row] = height, places // height
    return made


def boxes(random: Random, shape: tuple[int, ...], *, high: int) -> Array:
    """Left, top, right and bottom of boxes, whole numbers below `high`; the last axis is of size 4."""
    corners = random.integers(0, high, (*shape[:-1], 2, 2))
    return np.sort(corners, axis=-2).reshape(shape)


FILLS: Mapping[str, Fill] = MappingProxyType(
    {
        made.__name__: made
        for made in (
            integers,
            ids_with_end,
            ids_with_image,
            whole_floats,
            uniform,
            normal,
            constant,
            positions,
            mask,
            first_one,
            grids,
            boxes,
        )
    }
)


def _shaped(spec: AnySpec, one: InputSpec, sizes: Mapping[str, int]) -> tuple[int, ...]:
    try:
        return shape(one.axes, sizes)
    except UnknownName as problem:
        raise UnknownName(f"input {one.name!r} of {spec.name or 'this spec'}: {problem}") from None


def _arguments(
    spec: AnySpec, one: InputSpec, generator: Generator, sizes: Mapping[str, int], seed: int
) -> dict[str, Any]:
    """The arguments of a generator, those that are dummies made."""

    def made(given: Any) -> Any:
        if not isinstance(given, NestedDummy):
            return given
        return dummy(spec, evolve(one, axes=given.axes, generator=given.generator), sizes, seed=seed)

    return {name: made(given) for name, given in generator.arguments}


def dtype_of(spec: AnySpec, one: InputSpec) -> np.dtype[Any]:
    """The numpy type of an input's dummies; bfloat16, which numpy lacks, is fed as float32."""
    chosen = {"int": spec.target.int_dtype or "int64", "float": spec.target.float_dtype or "float32", "bool": "bool"}[
        one.kind
    ]
    return np.dtype("float32" if chosen == "bfloat16" else chosen)

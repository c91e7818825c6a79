"""Dummy tensors, as numpy arrays. Each depends on the seed, its name and its shape, and on nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from inspect import signature
from math import prod
from typing import Any
from zlib import crc32

import numpy as np
from attrs import evolve
from numpy.typing import NDArray

from onnxfn.specs.algebra.fills import FILLS, Fill, Side
from onnxfn.specs.algebra.planned import AnySpec, Part
from onnxfn.specs.algebra.spec import Dummies, ExportSpec
from onnxfn.specs.axes import AxisMap, names, shape
from onnxfn.specs.axis_symbols import AxisFacts, fixed_sizes, traced_sizes
from onnxfn.specs.converters import plain_number, resolve
from onnxfn.specs.errors import InvalidSpec, MissingValue, OnnxfnError, UnknownName, raise_no_memory, unknown
from onnxfn.specs.records import Generator, Getter, InputSpec, NestedDummy

Array = NDArray[Any]
LARGEST_DUMMY = 1 << 28
"""The most elements of a dummy, 2 GiB of numbers: a larger one is a mistake in a size."""


def generates(name: str, function: str, **arguments: Any) -> ExportSpec:
    """A spec with one generator: a named way to make dummy tensors.

    Args:
        name: The name that inputs refer to, the third argument of `takes`.
        function: `integers`, `uniform`, `normal`, `constant`, `mask`, `positions` or another that the error for an
            unknown name lists, or `package.module:function` for one of your own. It is called with a
            `numpy.random.Generator`, a shape and `arguments`, and returns an array of this shape.
        arguments: Keyword arguments of the function. A getter is read from the configuration; a NestedDummy is
            generated first.

    Returns:
        An ExportSpec with this generator and nothing else. An unknown function is an error when a dummy is made.

    >>> from onnxfn.specs.algebra.compose import compose
    >>> from onnxfn.specs.algebra.facts import takes
    >>> spec = compose(takes("input_ids", "batch_size 3", "ids"), generates("ids", "constant", value=7))
    >>> dummies(spec, {"batch_size": 2})["input_ids"].tolist()
    [[7, 7, 7], [7, 7, 7]]
    """
    return ExportSpec(dummies=Dummies(generators=(Generator(name, function, arguments),)))


def sized(**sizes: int | Getter) -> ExportSpec:
    """A spec with the sizes of dynamic axes in dummy tensors.

    Args:
        sizes: For each axis symbol, a number or a getter.

    Returns:
        An ExportSpec with these sizes and nothing else. The axes stay dynamic in the graph; `with_shapes` fixes axes.

    >>> spec = sized(batch_size=2, sequence_length=16)
    >>> [(axis.name, axis.size) for axis in spec.axes]
    [('batch_size', 2), ('sequence_length', 16)]
    """
    return ExportSpec(axes=tuple(AxisFacts(name, plain_number(size)) for name, size in sizes.items()))


def padded(side: Side) -> ExportSpec:
    """A spec whose attention masks have padding on one side, for a case of the check.

    Args:
        side: `right`, `left` or `none`. Another side is an UnknownName when a dummy is made.

    Returns:
        An ExportSpec with the generator `padding_mask` and nothing else: that of masks of rows of onnxfn.

    >>> print(padded("left").dummies.generators[0])
    mask(padding=left)
    """
    return generates("padding_mask", "mask", padding=side)


def dummies(spec: AnySpec, sizes: Mapping[str, int], *, seed: int = 0) -> dict[str, Array]:
    """The dummy of each input of a planned spec, or of one whose sizes and generators do not read the configuration."""
    all_sizes = known_sizes(spec, sizes)
    return {input_.name: dummy(spec, input_, all_sizes, seed=seed) for input_ in spec.inputs}


def dummy(spec: AnySpec, input_: InputSpec, sizes: Mapping[str, int], *, seed: int = 0) -> Array:
    """The dummy of one input. It is the same for the same seed, name and shape, whatever other inputs the spec has."""
    generator = _generator(spec, input_)
    fill: Fill = resolve(generator.function, FILLS, kind="dummy function")
    random = np.random.default_rng([seed, crc32(input_.name.encode())])
    shape = _shape(spec, input_, sizes)
    if prod(shape) > LARGEST_DUMMY:
        raise InvalidSpec(f"the dummy of {input_.name!r} has the shape {list(shape)}: above {LARGEST_DUMMY} elements")
    arguments = _arguments(spec, input_, generator, sizes, seed)
    try:
        return _of_shape(fill(random, shape, **arguments), shape).astype(dtype_of(spec, input_))
    except OnnxfnError:
        raise
    except Exception as problem:  # a function of the user's may raise anything
        raise_no_memory(problem)
        message = f"{generator} cannot make a dummy for {input_.name!r} with the shape {list(shape)}: {problem}"
        message += _missing_arguments(fill, arguments, f"{input_.generator!r}, {generator.function!r}")
        raise InvalidSpec(" ".join(message.split())) from problem  # an argument may print as several lines


def _missing_arguments(fill: Fill, arguments: Mapping[str, Any], names: str) -> str:
    """What to change in a spec whose generator lacks arguments, or has a text as one; empty if it has neither."""
    parameters = signature(fill).parameters.values()
    required = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY and each.default is each.empty]
    missing = [name for name in required if name not in arguments]
    if missing:
        return f"; add generates({names}, {'=..., '.join(missing)}=...)"
    own = ":" not in names
    texts = [f"{name}=from_config({value!r})" for name, value in arguments.items() if own and isinstance(value, str)]
    return f"; a number of the configuration is {', '.join(texts)}" if texts else ""


def _of_shape(array: Any, shape: tuple[int, ...]) -> Array:
    """The array of a generator. ValueError if it is none of this shape."""
    is_array = isinstance(array, (np.ndarray, np.generic))
    if not is_array or array.shape != shape:
        actual = f"an array of the shape {list(array.shape)}" if is_array else type(array).__name__
        raise ValueError(f"the function returns {actual}")
    return np.asarray(array)


def size_inputs(spec: AnySpec) -> dict[str, AxisMap]:
    """The inputs that are numbers, each the size of an axis: `forward` takes it as a whole number, not as a tensor."""
    of = {each.name: dict(each.arguments)["of"].axes for each in spec.dummies.generators if each.function == "size"}
    return {input_.name: of[input_.generator] for input_ in spec.inputs if input_.generator in of}


def with_sizes_as_axes(part: Part) -> Part:
    """A part whose numbers are tensors with that axis, of which `forward` takes the size: so it is traced."""
    axes = size_inputs(part.spec)
    inputs = tuple(evolve(each, axes=axes.get(each.name, each.axes)) for each in part.spec.inputs)
    return evolve(part, spec=evolve(part.spec, inputs=inputs))


def axes_of_inputs(spec: AnySpec) -> tuple[str, ...]:
    """The names of all axes of the inputs, also of those that are the size of an axis."""
    every = (*(input_.axes for input_ in spec.inputs), *size_inputs(spec).values())
    return tuple(dict.fromkeys(name for axes in every for name in names(axes)))


def known_sizes(spec: AnySpec, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes of all axis symbols of the inputs: the given ones, then those of fixed axes, then those of the spec."""
    axis_names = axes_of_inputs(spec)
    for name, size in sizes.items():
        if name not in axis_names:
            raise unknown("size", name, axis_names, of=spec.name or "this spec")
        if size < 0:
            raise InvalidSpec(f"size {name!r} is {size}; a size is 0 or more")
    return planned_sizes(spec, axis_names) | dict(sizes)


def planned_sizes(spec: AnySpec, axis_names: Iterable[str]) -> dict[str, int]:
    """The sizes that a planned spec has for these axis symbols. The size of a fixed axis wins."""
    return {name: size for name, size in (traced_sizes(spec) | fixed_sizes(spec)).items() if name in axis_names}


def graph_dtype(spec: AnySpec, kind: str) -> str:
    """The dtype that tensors of a kind have in the graph of a spec."""
    return {"int": spec.target.int_dtype or "int64", "float": spec.target.float_dtype or "float32"}.get(kind, kind)


def dtype_of(spec: AnySpec, input_: InputSpec) -> np.dtype[Any]:
    """The numpy dtype of an input's dummies. numpy has no bfloat16, so these dummies are float32."""
    dtype = graph_dtype(spec, input_.kind)
    return np.dtype("float32" if dtype == "bfloat16" else dtype)


def _shape(spec: AnySpec, input_: InputSpec, sizes: Mapping[str, int]) -> tuple[int, ...]:
    try:
        return shape(input_.axes, sizes)
    except UnknownName as problem:
        missing = [name for name in names(input_.axes) if name not in sizes]
        advice = f"; give a size to trace with: sized({', '.join(f'{name}=2' for name in missing)})"
        raise UnknownName(f"input {input_.name!r} of {spec.name or 'this spec'}: {problem}{advice}") from problem


def _generator(spec: AnySpec, input_: InputSpec) -> Generator:
    """The generator of an input: of the spec, or the function of that name without arguments."""
    generators = {generator.name: generator for generator in spec.dummies.generators}
    name = input_.generator
    if name in generators:
        return generators[name]
    if name not in FILLS:
        owner = f"input {input_.name!r} of {spec.name or 'this spec'}"
        error = unknown("generator", name, {**generators, **FILLS}, of=owner)
        raise UnknownName(f"{error}; or add one: generates({name!r}, 'integers', low=0, high=100)")
    return Generator(name, name)


def _arguments(
    spec: AnySpec, input_: InputSpec, generator: Generator, sizes: Mapping[str, int], seed: int
) -> dict[str, Any]:
    """The arguments of a generator, with an array for each nested dummy."""

    def value(argument: Any) -> Any:
        if isinstance(argument, Getter):
            raise MissingValue(f"{generator} of {input_.name!r} depends on the configuration: plan(spec, config)")
        if not isinstance(argument, NestedDummy):
            return argument
        return dummy(spec, evolve(input_, axes=argument.axes, generator=argument.generator), sizes, seed=seed)

    return {name: value(argument) for name, argument in generator.arguments}

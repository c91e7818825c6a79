"""The tensors and constants in a sample of the arguments of a module, and where they sit in its `forward`."""

import inspect
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from attrs import frozen

from onnxfn.export.derive.trees import fields_of, is_cache, layers_of
from onnxfn.specs.algebra.spec import Call
from onnxfn.specs.converters import Path, resolve
from onnxfn.specs.errors import InvalidSpec, UnknownName, listed, unknown
from onnxfn.specs.records import ArgumentBuilder, Constant


def items_of(value: Any) -> Mapping[Any, Any] | None:
    """The items of a dict, tuple, list, named tuple or dataclass by their keys; None for anything else or no items."""
    if type(value) in (tuple, list):
        return dict(enumerate(value)) or None
    if type(value) is dict:
        return value or None
    return fields_of(value) or layers_of(value)


def builder_name(name: str, value: Any) -> str | None:
    """What builds a container: `as_list`, or `package.module:Class`; None for none. InvalidSpec for a local class."""
    if type(value) in (tuple, dict):
        return None
    if type(value) is list:
        return "as_list"  # a tuple and a dict need no builder
    if is_cache(value):
        return "cache_of_layers"
    owner = type(value)
    path = f"{owner.__module__}:{owner.__qualname__}"
    with suppress(UnknownName):
        if resolve(path, {}, kind="class") is owner:
            return path
    raise InvalidSpec(
        f"{name!r} in the sample is {owner.__qualname__}, which {owner.__module__} has under no name; define the "
        "class at the top of a module, or pass a dict"
    )


HOLDS = "tensors, numpy arrays, numbers, and dicts, tuples, lists, named tuples or dataclasses of these"


@frozen(eq=False)
class SampleTensor:
    """A tensor of a sample, its name in ONNX, its path in the arguments, and whether it is the size of an axis."""

    name: str
    path: Path
    tensor: Any
    is_size: bool = False


def sample_arguments(model: Any, sample: Any, sizes: Collection[str] = ()) -> tuple[tuple[SampleTensor, ...], Call]:
    """The tensors of a sample, whole numbers in `sizes` among them, and how `forward` is called with them."""
    import torch

    every = [each for path, value in _by_path(model, sample) for each in _leaves(path, value, type(model))]
    leaves = [(path, leaf) for path, leaf in every if not isinstance(leaf, ArgumentBuilder)]
    tensors = tuple(SampleTensor(_name(path), path, leaf) for path, leaf in leaves if hasattr(leaf, "shape"))
    numbers = [(path, leaf) for path, leaf in leaves if type(leaf) is int and _name(path) in sizes]
    tensors += tuple(SampleTensor(_name(path), path, torch.tensor(leaf), is_size=True) for path, leaf in numbers)
    names = [tensor.name for tensor in tensors]
    if twice := [name for name in names if names.count(name) > 1]:
        both = f"two tensors of the sample for {type(model).__name__}"
        raise InvalidSpec(f"{both} have the name {twice[0]!r}; rename a key")
    if not tensors:
        raise InvalidSpec(f"the sample for {type(model).__name__} holds no tensor; a graph needs one input or more")
    constants = (
        Constant(_name(path), leaf, () if len(path) == 1 else path)
        for path, leaf in leaves
        if not hasattr(leaf, "shape") and (path, leaf) not in numbers
    )
    builders = (builder for _, builder in every if isinstance(builder, ArgumentBuilder))
    return tensors, Call(constants=tuple(constants), builders=tuple(builders))


def _name(path: Path) -> str:
    return ".".join(map(str, path))


def _by_path(model: Any, sample: Any) -> Iterable[tuple[Path, Any]]:
    """The arguments of a sample, each with its place in `forward`. UnknownName for a name that is not an argument."""
    parameters = inspect.signature(model.forward).parameters
    if isinstance(sample, Mapping):
        known = [name for name, each in parameters.items() if each.kind is not each.VAR_KEYWORD]
        for name in sample if len(known) == len(parameters) else ():  # `**kwargs` takes any name
            if name not in known:
                error = unknown("argument", name, known, of=f"the forward of {type(model).__name__}")
                raise UnknownName(f"{error}; a sample may also be a tuple in the order of the arguments")
        return [((name,), value) for name, value in sample.items()]
    arguments = sample if isinstance(sample, (tuple, list)) else (sample,)
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    placed = [name for name, each in parameters.items() if each.kind in by_position]
    several = [name for name, each in parameters.items() if each.kind is each.VAR_POSITIONAL]
    more = len(arguments) - len(placed)
    if more > 0 and not several:
        raise InvalidSpec(
            f"the sample has {len(arguments)} arguments, but the forward of {type(model).__name__} takes "
            f"{len(placed)}: {listed(placed)}; pass a tuple of {len(placed)}, or a dict by name"
        )
    paths: list[Path] = [(name,) for name in placed] + [(name, number) for name in several for number in range(more)]
    return list(zip(paths, arguments, strict=False))


def _leaves(path: Path, value: Any, owner: type) -> Iterator[tuple[Path, Any]]:
    """The tensors, the plain values and the builders of containers in an argument, each with its path, outer first."""
    import torch

    items = items_of(value)
    if isinstance(value, (np.ndarray, np.generic)):
        try:
            value = torch.from_numpy(np.array(value))
        except TypeError as error:
            raise InvalidSpec(f"{_name(path)!r} is a numpy array of {value.dtype}; a sample holds {HOLDS}") from error
    if isinstance(value, torch.Tensor):
        yield path, _dense(path, value)
    elif items is not None:
        if [*items] != [*range(len(items))] and not all(isinstance(key, str) for key in items):
            raise InvalidSpec(
                f"the keys of {_name(path)!r} in the sample are {listed(map(str, items))}; a dict has texts as keys"
            )
        if (by := builder_name(_name(path), value)) is not None:
            yield path, ArgumentBuilder(_name(path), by)
        for step, item in items.items():
            yield from _leaves((*path, step), item, owner)
    elif value is None or isinstance(value, (bool, int, float, str)):
        yield path, value
    else:
        kind = f"an empty {type(value).__name__}" if type(value) in (dict, tuple, list) else type(value).__name__
        raise InvalidSpec(
            f"{_name(path)!r} in the sample for {owner.__name__} is {kind}; a sample holds {HOLDS}: "
            "wrap the module in one whose forward takes these"
        )


def _dense(path: Path, tensor: Any) -> Any:
    """A tensor of a sample that has each of its elements in memory; InvalidSpec for a sparse or a nested one."""
    if tensor.is_nested or str(tensor.layout) != "torch.strided":
        kind = "nested" if tensor.is_nested else "sparse"
        raise InvalidSpec(
            f"{_name(path)!r} is a {kind} tensor, which ONNX has not; pass a dense one, such as tensor.to_dense(), and "
            "convert it in the module"
        )
    return tensor

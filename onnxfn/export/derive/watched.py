"""The modules that a program calls, as samples for `derived`: seen while the program runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from functools import wraps
from itertools import chain, combinations
from math import prod
from operator import add
from types import FunctionType, MappingProxyType
from typing import Any

from attrs import field, frozen

from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.export.derive.trees import Copies, all_tensors, begin, with_copies
from onnxfn.models.model_state import model_copy
from onnxfn.specs.errors import InvalidSpec, listed
from onnxfn.specs.record import typed_fields
from onnxfn.specs.short_repr import counted, short_repr

PART_NAMES: Mapping[str, str] = MappingProxyType({"forward": "", "encode": "_encoder", "decode": "_decoder"})
"""Method -> what the name of its part has after that of the module. Any other method: its own name."""

SIDES: Mapping[int, tuple[str, ...]] = MappingProxyType(
    {4: ("channels", "height", "width"), 5: ("channels", "frames", "height", "width")}
)
"""Number of axes of a tensor -> the names of those after the first, if they move."""


@frozen(eq=False, field_transformer=typed_fields)
class Watched:
    """One method of a module, as a program called it: the arguments of `derived` and `export`.

    Attributes:
        model: The module, or its method: the first argument of `derived`, and the second of `export`.
        sample: The arguments of the call with the largest tensors, by name. A number that changed is a tensor.
        axes: The pattern of each tensor. An axis moves if its size changed; axes that changed together have one name,
            or are a multiple of one, the sum of two, the product of two or three. All others are fixed at their sizes.
            A whole number that changed as sizes did has the word of an axis.
        calls: The number of calls.
        results: The number of tensors in the result of the first call.
    """

    model: Any
    sample: Mapping[str, Any] = field(repr=False)
    axes: Mapping[str, str]
    calls: int
    results: int

    __repr__ = short_repr


def components(program: Any) -> dict[str, Any]:
    """The modules by name of a dict, a module, or an object with `components`. InvalidSpec if there is none."""
    import torch

    if isinstance(program, torch.nn.Module):
        every: Mapping[str, Any] = _children(program)
    else:
        every = program if isinstance(program, Mapping) else getattr(program, "components", {})
    modules = {name: each for name, each in every.items() if hasattr(each, "forward") and hasattr(each, "state_dict")}
    if not modules:
        raise InvalidSpec(
            f"{type(program).__name__} has no modules; pass a dict of modules by name, a module with children, or an "
            "object whose `components` are such a dict"
        )
    return modules


def _children(model: Any) -> dict[str, Any]:
    """The children of a module; those of all modules around the language model, and its table, if one is inside."""
    decoder = model.get_decoder() if hasattr(model, "get_decoder") else model
    around = [each for each in model.modules() if each is not decoder and decoder in each.modules()]
    children = [child for each in around or [model] for child in each.children() if child not in around]
    children += [model.get_input_embeddings()] if around else []
    named = {path: each for path, each in model.named_modules() if each in children}
    ends = [path.rpartition(".")[2] for path in named]
    return {
        end if ends.count(end) == 1 else path.replace(".", "_"): each
        for end, (path, each) in zip(ends, named.items(), strict=True)
    }


def methods_of(module: Any) -> tuple[str, ...]:
    """The methods of a module that a program may call: `forward`, and the public ones of its classes."""
    import torch

    owners = [owner for owner in type(module).__mro__ if owner not in torch.nn.Module.__mro__]
    every = (name for owner in owners for name, value in vars(owner).items() if type(value) is FunctionType)
    public = {name for name in every if not name.startswith("_") and not hasattr(torch.nn.Module, name)}
    return ("forward", *sorted(public))


def part_name(name: str, method: str) -> str:
    """The name of the part for a method of a module: that of the module for `forward`, `vae_decoder` for `decode`."""
    return f"{name}{PART_NAMES.get(method, f'_{method}')}"


def numbered(part: str, number: int) -> str:
    """The name of the part for calls of a method with other tensors than before: `git`, `git_2`, `git_3`."""
    return f"{part}_{number + 1}" if number else part


Replacement = Callable[[str, Any, str], Callable[..., Any] | None]
"""From the name of a part, its module and its method to what stands in place of the method; None for the method."""


@contextmanager
def replaced_methods(modules: Mapping[str, Any], replacement: Replacement) -> Iterator[None]:
    """Within it, methods of modules are others; their classes are as they were, and so are other modules."""
    with ExitStack() as undo:
        for name, module in modules.items():
            for method in methods_of(module):
                if (other := replacement(part_name(name, method), module, method)) is not None:
                    undo.callback(vars(module).update, {method: vars(module)[method]} if method in vars(module) else {})
                    undo.callback(vars(module).pop, method)
                    vars(module)[method] = other
        yield


def watched(program: Any, *runs: Callable[[], Any]) -> dict[str, Watched]:
    """The methods of a program's modules that get tensors while it runs, by the names of their parts.

    Each run shows sizes: run the program at two sizes of what moves, such as another text, or a larger picture. Nothing
    else changes: results are those of the modules, and no hook stays, also after an error of a run. If a method of a
    module calls another, the outer one is seen; but `forward`, if inside. Keys and values of a cache are tensors.

    Args:
        program: A dict of modules by their names, a module whose children are meant, or an object with `components`,
            such as a pipeline of diffusers. Of a model with a language model inside, all modules around that are meant:
            towers, projections, the table of tokens.
        *runs: Functions without arguments that run the program.

    Returns:
        From the name of a part to what `derived` and `export` take: `unet` for `forward`, `vae_decoder` for `decode`,
        `clip_get_text_features` for any other method. Calls with other tensors, such as without a picture, are a part
        of their own: `unet_2`.

    Raises:
        InvalidSpec: The program has no modules, or a run calls none.

    Example:
        >>> import torch
        >>> modules = {"encoder": torch.nn.Linear(4, 2), "decoder": torch.nn.Linear(2, 4)}
        >>> def run(rows):
        ...     return modules["decoder"](modules["encoder"](torch.ones(rows, 4)))
        >>> {name: dict(part.axes) for name, part in watched(modules, lambda: run(2), lambda: run(3)).items()}
        {'encoder': {'input': 'batch_size 4'}, 'decoder': {'input': 'batch_size 2'}}
    """
    seen, running = dict[str, Seen](), list[Seen]()
    modules = components(program)
    before = {id(module): _attributes(module) for module in modules.values()}

    def noting(part: str, module: Any, method: str) -> Callable[..., Any]:
        seen[part] = Seen(module, method)
        return _noting(seen[part], before[id(module)], running)

    with replaced_methods(modules, noting):
        for run in runs:
            run()
    parts = {numbered(name, at): part for name, each in seen.items() for at, part in enumerate(_parts(each))}
    if not parts:
        raise InvalidSpec(f"{counted(len(runs), 'runs')} called no module of {listed(modules)} with tensors")
    return parts


Calls = dict[Any, list[Mapping[str, Any]]]
"""From the shapes of the tensors of a call to the arguments of all calls with these; only the first have values."""


@frozen(eq=False)
class Seen:
    """The calls of a method, how many tensors it returns for given ones, and a copy of a module changed before."""

    module: Any
    method: str
    calls: Calls = field(factory=dict)
    results: dict[tuple[str, ...], int] = field(factory=dict)
    changed: list[Any] = field(factory=list)


def _attributes(module: Any) -> dict[tuple[str, str], int]:
    """What identifies the attributes of all modules inside, such as the functions that compute attention."""
    methods = methods_of(module)  # those of modules that are watched are replaced
    inside = ((path, name, value) for path, each in module.named_modules() for name, value in vars(each).items())
    return {(path, name): id(value) for path, name, value in inside if name not in methods}


def _noting(noted: Seen, before: Mapping[tuple[str, str], int], running: list[Seen]) -> Callable[..., Any]:
    """A method that notes what it gets and gives; `before`: the module's attributes, `running`: methods that run."""
    module, calls, original = noted.module, noted.calls, getattr(noted.module, noted.method)
    signature, is_forward = inspect.signature(original), noted.method == "forward"

    @wraps(original)
    def call(*arguments: Any, **named: Any) -> Any:
        taken = given_arguments(signature, arguments, named)
        shapes, copied, caches = _shapes(taken), taken, Copies()
        own = [each for each in running if each.module is module]
        is_inside = any(module in each.module.modules() for each in running if each not in own)
        is_noted = bool(shapes) and not is_inside and (not own or (is_forward and noted not in own))
        if is_noted:
            for outer in own:
                outer.calls.clear()
            if not calls and _attributes(module) != before:
                noted.changed.append(_as_it_is(module))
            is_new = shapes not in calls
            copied, caches = with_copies(taken, lambda each: each.detach().clone() if is_new else each.to("meta"))
            calls.setdefault(shapes, []).append(copied)
        running.append(noted)
        try:
            result = original(*arguments, **named)
        finally:
            running.pop()
        for new, cache in caches:
            begin(new, cache)
        if is_noted:
            noted.results[_names(copied)] = len(all_tensors(result, caches=bool(caches)))
        return result

    return call


def _as_it_is(module: Any) -> Any:
    """A copy of a module on its own weights, without what notes its calls; itself if it cannot be copied."""
    with replaced_methods({"": module}, lambda _, owner, method: getattr(type(owner), method)):
        copied = model_copy(module)
    if copied is not module:
        for method in methods_of(module):
            vars(copied).pop(method, None)
    return copied


def _shapes(arguments: Mapping[str, Any]) -> tuple[Any, ...]:
    """The paths and the shapes of the tensors of a call."""
    return tuple((path, tuple(each.shape)) for path, each in all_tensors(arguments, caches=True).items())


def given_arguments(signature: inspect.Signature, arguments: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by their names, without empty ones, those that equal their default, and generators."""
    import torch

    by_name, parameters = signature.bind(*arguments, **named).arguments, signature.parameters
    by_name |= by_name.pop(next((name for name, each in parameters.items() if each.kind is each.VAR_KEYWORD), ""), {})

    def is_given(name: str, value: Any) -> bool:
        default = parameters[name].default if name in parameters else None
        is_empty = isinstance(value, (dict, list, tuple)) and not value
        is_left_out = value is default or (value is None and default is not inspect.Parameter.empty)
        return not (is_empty or is_left_out or isinstance(value, torch.Generator))

    return {name: value for name, value in by_name.items() if is_given(name, value)}


def _parts(seen: Seen) -> list[Watched]:
    """A part for all calls with the same tensors, in the order of the first of these calls."""
    groups = dict[tuple[str, ...], Calls]()
    for arguments in chain.from_iterable(seen.calls.values()):
        groups.setdefault(_names(arguments), {}).setdefault(_shapes(arguments), []).append(arguments)
    owner = next(iter(seen.changed), seen.module)
    model = owner if seen.method == "forward" else getattr(owner, seen.method)
    return [_part(model, calls, seen.results[names]) for names, calls in groups.items()]


def _names(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """The paths of the tensors of a call, with dots."""
    return tuple(".".join(map(str, path)) for path, _ in _shapes(arguments))


def _part(model: Any, calls: Calls, results: int) -> Watched:
    """The sample, largest call and axes of calls with the same tensors; a number that changed is a tensor or size."""
    import torch

    numbers = [[_numbers(each) for each in every] for every in calls.values()]
    largest = max(calls, key=lambda shapes: sum(prod(shape) for _, shape in shapes))
    first, *others = (_numbers(calls[largest][0]), *chain.from_iterable(numbers))
    changed = {path for path, number in first.items() if any(each.get(path) != number for each in others)}
    by_shapes = {path: [[each.get(path) for each in of_shapes] for of_shapes in numbers] for path in changed}
    sizes = {path: [(numbers[0],) for numbers in of] for path, of in by_shapes.items() if _are_sizes(of)}
    values = {path: torch.tensor(first[path]) for path in changed - {*sizes}}
    sample = torch_name("pytree").tree_map_with_path(lambda path, own: values.get(_name(path), own), calls[largest][0])
    tensors = zip(*([shape for _, shape in shapes] for shapes in calls), strict=True)
    patterns = _patterns(dict(zip(_names(calls[largest][0]), tensors, strict=True)), sizes)
    return Watched(model, sample, patterns, sum(map(len, calls.values())), results)


def _numbers(arguments: Any) -> dict[str, int | float]:
    """The numbers in the arguments of a call, by their paths with dots."""
    leaves = torch_name("pytree").tree_flatten_with_path(arguments)[0]
    return {_name(path): leaf for path, leaf in leaves if type(leaf) in (int, float)}


def _name(path: Sequence[Any]) -> str:
    """A path of torch with dots."""
    return ".".join(str(getattr(step, "key", getattr(step, "idx", step))) for step in path)


def _are_sizes(numbers: Sequence[Sequence[Any]]) -> bool:
    """Whether tensors of the same shapes have the same whole number, which then may be the size of an axis."""
    return all({*each} == {each[0]} and type(each[0]) is int and each[0] > 1 for each in numbers)


def _patterns(
    shapes: Mapping[str, Sequence[tuple[int, ...]]], numbers: Mapping[str, Sequence[tuple[Any]]]
) -> dict[str, str]:
    """The patterns of tensors from their shapes in several calls, and of numbers that are the sizes of axes."""
    sizes = {name: list(zip(*of, strict=True)) for name, of in shapes.items()}
    of_numbers = {name: [tuple(size for (size,) in of)] for name, of in numbers.items()}
    firsts = [each[0] for each in sizes.values() if each and len({*each[0]}) > 1]
    batch = max(firsts, key=firsts.count, default=None)
    symbols = {batch: "batch_size"} if batch and 2 * firsts.count(batch) >= len(sizes) else {}
    symbols = {of_axis: name.replace(".", "_") for name, [of_axis] in of_numbers.items()} | symbols
    for name, axes in sizes.items():
        of_rank = SIDES.get(len(axes), ("sequence_length",))
        sides = ("heads", "past_sequence_length") if ".layers." in name else of_rank  # the former in a cache
        for at, of_axis in enumerate(axes):
            word = sides[at - 1] if 0 < at <= len(sides) else f"axis_{at}"
            if len({*of_axis}) > 1 and of_axis not in symbols:
                symbols[of_axis] = f"{name}_{word}".replace(".", "_") if word in symbols.values() else word
    words = dict[tuple[int, ...], str]()
    for of_axis in sorted(symbols):
        words[of_axis] = _formula(of_axis, words, symbols[of_axis])
    every = (sizes | of_numbers).items()
    return {name: " ".join(words.get(each, str(each[0])) for each in axes) for name, axes in every}


def _formula(of_axis: tuple[int, ...], smaller: Mapping[tuple[int, ...], str], symbol: str) -> str:
    """The word of an axis: a multiple of a smaller one, a sum of two, a product of two or three; else its symbol."""
    words = {of: word for of, word in smaller.items() if word != "batch_size" and symbol != "batch_size"}
    for of, word in words.items():
        factor = of_axis[0] // max(1, of[0])
        if factor > 1 and of_axis == tuple(factor * size for size in of):
            return f"{factor}*{word}"
    for left, right in combinations(words, 2):
        if of_axis == tuple(map(add, left, right)):
            return f"{words[left]}+{words[right]}"
    plain = [of for of, word in words.items() if word.isidentifier()]
    for factors in chain(combinations(plain, 2), combinations(plain, 3)):
        shares = {Fraction(size, max(1, prod(of))) for size, *of in zip(of_axis, *factors, strict=True)}
        if len(shares) == 1:
            times, parts = shares.pop().as_integer_ratio()
            product = "*".join(words[each] for each in factors)
            return f"{f'{times}*' * (times > 1)}{product}{f'//{parts}' * (parts > 1)}"
    return symbol

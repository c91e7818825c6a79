"""The ranges of integer inputs that are used as indices, found in runs of PyTorch."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from attrs import frozen

from onnxfn.export.derive.probe import run_on
from onnxfn.export.derive.sample_runs import errors_dropped
from onnxfn.models.forward import tensors_for
from onnxfn.models.torch_modes import torch_operators
from onnxfn.specs.algebra.dummies import dummies, known_sizes
from onnxfn.specs.algebra.planned import PlannedSpec
from onnxfn.specs.axis_symbols import UNBOUNDED
from onnxfn.specs.conditions import Condition

Bounds = Mapping[str, tuple[int, int]]
"""From the name of an input to its smallest value, and its largest value plus 1."""


def _along(table: Any, axis: int, index: Any, *_: Any) -> Iterator[tuple[Any, int]]:
    if table.dim():
        yield index, table.shape[axis]


def _advanced(table: Any, indices: Any, *_: Any) -> Iterator[tuple[Any, int]]:
    """`table[rows, columns]`; a mask among the indices stands for several axes, so that none is known."""
    if not any(index is not None and str(index.dtype) in ("torch.bool", "torch.uint8") for index in indices):
        yield from ((index, table.shape[axis]) for axis, index in enumerate(indices) if index is not None)


INDEXED: Mapping[str, Callable[..., Iterable[tuple[Any, int]]]] = MappingProxyType(
    {
        **dict.fromkeys(
            ("embedding", "_embedding_bag", "_embedding_bag_forward_only"),
            lambda table, index, *_: [(index, table.shape[0])],
        ),
        "take": lambda table, index, *_: [(index, table.numel())],
        **dict.fromkeys(("index", "index_put", "index_put_", "_unsafe_index"), _advanced),
        **dict.fromkeys(("index_select", "gather", "index_add", "index_copy", "index_fill"), _along),
        **dict.fromkeys(("scatter", "scatter_", "scatter_add", "scatter_add_", "scatter_reduce"), _along),
        **dict.fromkeys(
            ("nll_loss_forward", "nll_loss2d_forward"),
            lambda scores, target, *_: [(target, scores.shape[min(1, scores.dim() - 1)])],
        ),
    }
)
"""Operator -> what it indexes."""

SAME_VALUES = frozenset(
    (
        *("_to_copy", "_unsafe_view", "clone", "constant_pad_nd", "flip", "repeat", "roll"),
        *("gather", "index", "index_select", "masked_fill", "masked_select"),
    )
)
"""Operators, other than views, with values of their first argument as result."""

SHIFTS: Mapping[str, int] = MappingProxyType({"add": 1, "add_": 1, "sub": -1, "sub_": -1})
"""Operators that add a number to each value, or subtract it."""


@frozen(eq=False)
class Origin:
    """A tensor with the values of an input plus a number. It is kept alive, so that its id stays unique."""

    tensor: Any
    input: str
    shift: int


Lookups = tuple[Mapping[str, int], list[tuple[int, int]]]
"""The sizes of a run, and of each operator that indexes an axis by other values: the rows that it needs and has."""


def index_bounds(model: Any, spec: PlannedSpec, earlier: Bounds, lookups: list[Lookups]) -> Bounds:
    """The range of each input whose values index an axis, in a run that may fail, or earlier; notes its lookups."""
    lookups.append((known_sizes(spec, {}), []))
    tensors = tensors_for(model, spec, dummies(spec, {}))
    origins = {id(each): [Origin(each, input_.name, 0)] for input_, each in zip(spec.inputs, tensors, strict=True)}
    bounds = {**earlier}

    def dispatch(function: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        name = function.overloadpacket.__name__
        with suppress(AttributeError, IndexError, TypeError, ValueError):  # an overload with other arguments
            for index, size in INDEXED[name](*arguments) if name in INDEXED else ():
                if id(index) not in origins and index.numel():
                    lookups[-1][1].append((int(index.max()) + 1, size))
                for origin in origins.get(id(index), ()):
                    low, high = bounds.get(origin.input, (-origin.shift, size - origin.shift))
                    bounds[origin.input] = max(low, -origin.shift), min(high, size - origin.shift)
        result = function(*arguments, **named)
        _follow(origins, function, arguments, result)
        return result

    with errors_dropped(), torch_operators(dispatch):  # the bounds so far are right, whatever the module raises
        run_on(model, spec, tensors)
    return bounds


def table_limits(lookups: Sequence[Lookups]) -> tuple[Condition, ...]:
    """The largest sizes of axes for which tables have enough rows: the rows that are needed grow as one axis does."""
    most = dict[str, int]()
    for each in zip(*(of_run for _, of_run in lookups), strict=False):
        runs = [(need, sizes) for (need, _), (sizes, _) in zip(each, lookups, strict=True)]
        more = {name: {need - sizes[name] for need, sizes in runs} for name in runs[0][1]}
        growing = [name for name, steps in more.items() if len(steps) == 1]
        if len(growing) == 1 and len({need for need, _ in each}) > 1 and len({rows for _, rows in each}) == 1:
            most[growing[0]] = min(most.get(growing[0], UNBOUNDED), each[0][1] - more[growing[0]].pop())
    return tuple(Condition(f"{name} <= {size}") for name, size in most.items())


def _follow(origins: dict[int, list[Origin]], function: Any, arguments: Sequence[Any], result: Any) -> None:
    """Notes where the values of a result come from: the arguments of an operator that has values of these."""
    name = function.overloadpacket.__name__
    if function.is_view or name in SAME_VALUES or (name in SHIFTS and type(arguments[1]) is int):
        sources = arguments[:1]
    else:
        sources = arguments[0] if name in ("cat", "stack") else arguments[1:] if name == "where" else ()
    for origin in [origin for source in sources for origin in origins.get(id(source), ())]:
        shift = SHIFTS.get(name, 0) * arguments[1] if name in SHIFTS else 0
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            known = origins.setdefault(id(tensor), [])
            if tensor is not origin.tensor or shift:
                known.append(Origin(tensor, origin.input, origin.shift + shift))

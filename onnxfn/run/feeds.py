"""The arrays that a caller passes to an ONNX file, checked against its inputs: names, dtypes, shapes, limits."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from onnxfn.run.greedy_decoding import numpy_dtype
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.axes import terms, value
from onnxfn.specs.conditions import Condition, as_ranges, is_condition, is_true, range_of, read_conditions, symbols_of
from onnxfn.specs.edits.caches import PAST
from onnxfn.specs.errors import InvalidSpec, first_line, listed, refuse_unknown
from onnxfn.specs.plan.cache_tensors import WRITE_INDICES


def feeds(session: Any, name: str, arrays: Mapping[str, Any]) -> dict[str, Array]:
    """The inputs of an ONNX Runtime session as numpy arrays, from the values of a caller by their names.

    numpy arrays and torch tensors must have the dtype of the input. Numbers and lists are converted to it. `name` is
    the name of the file. UnknownName if it has no such input. InvalidSpec if an input has no value, or one that does
    not fit: its dtype, its axes, a size that inputs disagree on, or one outside the limits in the file.
    """
    ports = {port.name: port for port in session.get_inputs()}
    for input_name in arrays:
        refuse_unknown("input", input_name, ports, of=name)
    if missing := [port for port in ports if port not in arrays]:
        raise InvalidSpec(f"no value for {listed(missing)}; {name} takes {listed(ports)}")
    converted = {port.name: _array(port, arrays[port.name], name) for port in ports.values()}
    sizes = _symbol_sizes(ports, converted, name)
    if WRITE_INDICES in converted:  # the past of a static cache is no axis
        sizes.setdefault(PAST, (int(converted[WRITE_INDICES].max(initial=0)), WRITE_INDICES))
    plain = {symbol: size for symbol, (size, _) in sizes.items()}
    _check_formulas(ports, converted, plain, name)
    limits = read_conditions(session.get_modelmeta().custom_metadata_map.get("onnxfn.limits", ""))
    for limit in limits:
        axes = symbols_of(limit.text)
        if plain.keys() >= {*axes} and not is_true(limit.text, plain):
            known = " and ".join(f"{axis} is {sizes[axis][0]} in {sizes[axis][1]}" for axis in axes)
            raise InvalidSpec(f"{known}; {name} is limited to {'; '.join(map(str, limits))}")
    return converted


def too_small(session: Any, arrays: Mapping[str, Array], axes: Iterable[str]) -> str:
    """The sizes of inputs at which an axis of the graph, a formula among `axes`, has no element; empty if none has."""
    sizes = _symbol_sizes({port.name: port for port in session.get_inputs()}, arrays, "")
    filled = [Condition(text) for text in (f"{axis} >= 1" for axis in axes) if is_condition(text)]
    ends = [end for each in filled if len(symbols_of(each.text)) == 1 for end in as_ranges(each)]
    least = {axis: range_of(ends, axis)[0] for axis in sizes}
    small = [axis for axis, (size, _) in sizes.items() if size < least[axis]]
    known = " and ".join(f"{axis} is {sizes[axis][0]} in {sizes[axis][1]}" for axis in small)
    wanted = " and ".join(f"{axis} >= {least[axis]}" for axis in small)
    return known and f"{known}, too small: an axis in the graph has no element; pass {wanted}"


def _array(port: Any, values: Any, name: str) -> Array:
    """The value of an input as an array of its dtype; InvalidSpec for another dtype or number of axes."""
    dtype = numpy_dtype(port.type)
    if hasattr(values, "detach"):
        try:
            values = values.detach().cpu().numpy()
        except (TypeError, RuntimeError):  # numpy does not have its type, such as bfloat16
            raise InvalidSpec(f"{port.name} is {values.dtype}; {name} takes {dtype}") from None
    has_dtype = isinstance(values, np.ndarray | np.generic)
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InvalidSpec(f"{port.name} is not an array of numbers: {first_line(error)}") from None
    if has_dtype or array.dtype.kind not in "biuf":
        fits = array.dtype == dtype
    else:  # numbers of a list keep their values, but for rounding of real numbers
        fits = array.size == 0 or dtype.kind == "f" or np.array_equal(array.astype(dtype), array)
    if not fits:
        raise InvalidSpec(f"{port.name} is {array.dtype}; {name} takes {dtype}")
    if array.ndim != len(port.shape):
        raise _misfit(port, array, "", name)
    return np.ascontiguousarray(array, dtype).reshape(array.shape)


def _misfit(port: Any, array: Array, why: str, name: str) -> InvalidSpec:
    """The error of an array that does not have the axes of an input, such as `[batch_size, 3]`."""
    axes = f"[{', '.join(str(axis or '_') for axis in port.shape)}]"
    return InvalidSpec(f"{port.name} has the shape {list(array.shape)}{why}; {name} takes {axes}")


def _sized(ports: Mapping[str, Any], arrays: Mapping[str, Array]) -> Iterator[tuple[str, Any, int]]:
    """Each axis of each input, with the name of the input; not the empty axis of a cache that a first step computes."""
    for name, port in ports.items():
        sized = zip(port.shape, arrays[name].shape, strict=True)
        yield from ((name, axis, size) for axis, size in sized if size or ".encoder." not in name)


def _symbol_sizes(ports: Mapping[str, Any], arrays: Mapping[str, Array], name: str) -> dict[str, tuple[int, str]]:
    """From each symbol of the inputs to its size and the input that has it. InvalidSpec if sizes do not fit."""
    sizes: dict[str, tuple[int, str]] = {}
    for input_name, axis, size in _sized(ports, arrays):
        if isinstance(axis, int) and axis != size:
            raise _misfit(ports[input_name], arrays[input_name], "", name)
        known, source = sizes.setdefault(str(axis), (size, input_name)) if axis else (size, "")
        if not isinstance(axis, int) and known != size:
            raise _misfit(ports[input_name], arrays[input_name], f", but {axis} is {known} in {source}", name)
    return sizes


def _check_formulas(ports: Mapping[str, Any], arrays: Mapping[str, Array], sizes: Mapping[str, int], name: str) -> None:
    """Raises InvalidSpec if an axis such as `past + now` has another size than its terms."""
    for input_name, axis, size in _sized(ports, arrays):
        with suppress(SyntaxError):  # the text of another program is no formula
            names = terms(str(axis))
            if names and sizes.keys() >= {*names} and value(axis, sizes) != size:
                known = ", ".join(f"{each}={sizes[each]}" for each in names)
                why = f", and {axis} is {value(axis, sizes)} for {known}"
                raise _misfit(ports[input_name], arrays[input_name], why, name)

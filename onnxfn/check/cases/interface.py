"""Compares the inputs and outputs that an ONNX file declares with those of the plan: names, order, axes and dtypes."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from onnxfn.check.cases.references import Reference, symbol_sizes
from onnxfn.graphs.passes.adapter_inputs import SUFFIXES
from onnxfn.specs.algebra.dummies import Array, graph_dtype
from onnxfn.specs.algebra.planned import Part, PlannedSpec
from onnxfn.specs.axes import solve_for_name, symbols, terms, value
from onnxfn.specs.axis_symbols import graph_axes
from onnxfn.specs.errors import listed
from onnxfn.specs.records import InputSpec, OutputSpec
from onnxfn.specs.results.output_types import is_open, output_kind
from onnxfn.weights.onnx_files import onnx_model


def interface_findings(part: Part, file: Path, reference: Reference) -> tuple[str, ...]:
    """One line for each difference of a file's inputs and outputs from those of the plan, and of a reference."""
    graph = onnx_model(file).graph
    of_adapter = SUFFIXES if part.spec.target.adapter_inputs else ()  # they have defaults, so callers may omit them
    inputs = [port for port in graph.input if not port.name.endswith(of_adapter)]
    arrays = [reference.inputs[input_.name] for input_ in part.spec.inputs]
    findings = (
        *_side_findings(part.spec, "inputs", inputs, part.spec.inputs, arrays),
        *_side_findings(part.spec, "outputs", graph.output, part.spec.outputs, reference.outputs),
    )
    return tuple(f"{part.name}: {finding}" for finding in findings)


def size_findings(part: Part, reference: Reference) -> tuple[str, ...]:
    """One line for each output of PyTorch that has other sizes than the inputs with the same symbols."""
    of_symbols = symbol_sizes(part.spec, reference.inputs)
    solved = (solve_for_name(symbol, size) for symbol, size in of_symbols.items())
    sizes = {name: size for each in solved for name, size in each.items()} | of_symbols
    pairs = zip(part.spec.outputs, reference.outputs, strict=True)
    # Some models do not follow the plan: windows of an image are rows of the batch; or the configuration has more
    # layers than the model, and the past of the missing layers is returned unchanged.
    return tuple(
        f"{part.name}: {output.name!r} has the shape {list(array.shape)} in PyTorch at {reference.case}, "
        f"but its axes are planned as {output.axes}: {_size_advice(output)}"
        for output, array in pairs
        if any(_differs(symbol, array.shape[axis : axis + 1], sizes) for axis, symbol in symbols(output.axes).items())
    )


def _side_findings(
    spec: PlannedSpec,
    side: str,
    ports: Sequence[Any],
    planned: Collection[InputSpec | OutputSpec],
    arrays: Sequence[Array],
) -> Iterator[str]:
    """The findings of the inputs or of the outputs of a file."""
    names, planned_names = [port.name for port in ports], [tensor.name for tensor in planned]
    if names != planned_names:
        yield f"the {side} of the file are {listed(names)}; those of the plan are {listed(planned_names)}"
    by_name = {port.name: port.type.tensor_type for port in ports}
    for tensor, array in zip(planned, arrays, strict=True):
        if tensor.name in by_name:
            yield from _tensor_findings(spec, tensor, by_name[tensor.name], array)


def _tensor_findings(spec: PlannedSpec, tensor: InputSpec | OutputSpec, declared: Any, array: Array) -> Iterator[str]:
    """The findings of one input or output of a file; `array` is its value in some case."""
    from onnx.helper import tensor_dtype_to_np_dtype

    dtype, allowed = tensor_dtype_to_np_dtype(declared.elem_type).name, _dtypes(spec, tensor, array)
    if dtype not in allowed:
        advice = f": write gives({tensor.name!r}, ..., kind={dtype!r})" if isinstance(tensor, OutputSpec) else ""
        if spec.target.io_dtype is None and all("float" in each for each in (dtype, *allowed)):
            advice = f": write with_dtypes(spec, float={dtype!r})"
        yield f"{tensor.name!r} is {dtype} in the file, but {' or '.join(allowed)} in the plan{advice}"
    sizes, axes = declared.shape.dim, graph_axes(spec, tensor).axes
    if len(sizes) != len(axes):
        yield f"{tensor.name!r} has {len(sizes)} axes in the file, but {len(axes)} in the plan"
        return
    if array.ndim != len(axes):
        yield f"{tensor.name!r} has {array.ndim} axes in PyTorch, but {len(axes)} in the plan"
        return
    for index, (size, axis, actual) in enumerate(zip(sizes, axes, array.shape, strict=True)):
        # The size of an axis `_` comes from an actual array.
        fixed = actual if axis.kind == "unspecified" else axis.symbol
        actual_size, planned = size.dim_param or size.dim_value, fixed if axis.kind == "dynamic" else int(fixed)
        if actual_size != planned:
            yield f"axis {index} of {tensor.name!r} is {actual_size} in the file, but {planned} in the plan"


def _dtypes(spec: PlannedSpec, tensor: InputSpec | OutputSpec, array: Array) -> tuple[str, ...]:
    """The dtypes that an input or output may have in the file: those of the plan, or of PyTorch if it has none."""
    kind = tensor.kind if isinstance(tensor, InputSpec) else output_kind(spec, tensor)
    if kind not in ("", "float") or isinstance(tensor, InputSpec):
        return (graph_dtype(spec, kind), *(["int64"] if is_open(spec, tensor) else []))
    if tensor.name in spec.io_names and array.dtype.kind == "f":
        return (spec.target.io_dtype or "float32",)
    if not kind and array.dtype != "float32":
        return (array.dtype.name,)
    # A model in half precision may return numbers in single precision.
    own = (graph_dtype(spec, input_.kind) for input_ in spec.inputs if "float" in input_.kind)
    return tuple(dict.fromkeys((graph_dtype(spec, "float"), "float32", *own)))


def _differs(symbol: str, size: tuple[int, ...], sizes: dict[str, int]) -> bool:
    """Whether a size, none of a missing axis, is not that of its symbol, as far as the sizes of its names are known."""
    if symbol in sizes:
        return size != (sizes[symbol],)
    # What ends before it begins is empty: the size of `time - 2` is 0 at time=1.
    return sizes.keys() >= set(terms(symbol)) and size != (max(0, value(symbol, sizes)),)


def _size_advice(output: OutputSpec) -> str:
    if output.layer is not None and len(output.forward_path) == 2:  # noqa: PLR2004 - the field, and the layer in it
        return f"give its axes with with_output(spec, {output.name!r}, axes, path={output.forward_path})"
    return "the model has fewer layers than its configuration, or the spec has other axes than the model"

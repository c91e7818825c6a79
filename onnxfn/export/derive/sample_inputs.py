"""Inputs of any module, from sample tensors and axis patterns: dummy values, long texts, and the results for them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import evolve

from onnxfn.export.derive.probe import Run, onnx_name, output_names, tensor_kind
from onnxfn.export.derive.sample_arguments import SampleTensor
from onnxfn.models.submodules import SCRIPTED
from onnxfn.specs.algebra.compose import compose
from onnxfn.specs.algebra.config_values import Snapshot, snapshot
from onnxfn.specs.algebra.dummies import Array, sized
from onnxfn.specs.algebra.facts import takes
from onnxfn.specs.algebra.fills import SCALES
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.axes import AxisMap, axis_map, solve_for_name, symbols
from onnxfn.specs.axis_symbols import SMALLEST_DYNAMIC_SIZE
from onnxfn.specs.errors import InvalidSpec, listed
from onnxfn.specs.plan.check_cases import batch_symbol, within_ranges
from onnxfn.specs.plan.text_cases import text_facts, thresholds, with_text_cases
from onnxfn.specs.records import KINDS, Generator, Kind, NestedDummy, Normalizer


def inner_models(model: Any) -> tuple[Any, ...]:
    """The modules of transformers inside a module that have a configuration."""
    modules = (module for module in model.modules() if type(module).__module__.startswith("transformers."))
    return tuple(module for module in modules if hasattr(getattr(module, "config", None), "to_dict"))


def inner_config(model: Any) -> Snapshot:
    """The configuration of the model of transformers inside a module; of several, each is inside it."""
    inner = inner_models(model)
    inside = {id(part) for each in inner for part in each.modules() if part is not each}
    configs = [snapshot(each.config) for each in inner if id(each) not in inside]
    return configs[0] if len(configs) == 1 else dict(zip(("text_config", "decoder", "encoder"), configs, strict=False))


def with_long_texts(model: Any, part: Part) -> Part:
    """A part of a spec from a sample, with the long and far texts that configurations inside its module ask for."""
    spec, config = part.spec, inner_config(model)
    free = [[*({*symbols(input_.axes).values()} - {batch_symbol(spec)})] for input_ in spec.inputs]
    lengths = {axes[0] for axes in free if len(axes) == 1} if any(thresholds(config)) else set()
    facts = text_facts(Normalizer(), config)
    return evolve(part, spec=within_ranges(with_text_cases(spec, facts, tuple(sorted(lengths))))) if config else part


DTYPES = KINDS[2:]
"""The dtypes that an input can have."""

COMPLEX = "pass torch.view_as_real(tensor), and join the parts in the module"


def sample_inputs(tensors: Iterable[SampleTensor], axes: Mapping[str, str], float_dtype: str) -> ExportSpec:
    """A spec of inputs like tensors of a sample, without generators; `float_dtype` follows the dtype of the weights."""
    return compose(*(_sample_input(tensor, axes.get(tensor.name), float_dtype) for tensor in tensors))


LIKE = "like {}"
"""The name of the generator of an input from a sample."""


def _sample_input(sample: SampleTensor, pattern: str | None, float_dtype: str) -> ExportSpec:
    name, shape = sample.name, (int(sample.tensor),) if sample.is_size else tuple(sample.tensor.shape)
    words = ("batch_size", *"_" * (len(shape) - 1))[: len(shape)] if pattern is None else pattern.split()
    fits = (not word.isdigit() or int(word) == size for word, size in zip(words, shape, strict=False))
    if len(words) != len(shape) or not all(fits):
        raise InvalidSpec(
            f"{name!r} has {len(shape)} axes {list(shape)}, and its pattern is {pattern!r}; write one word for each "
            "axis; a number is the size that the axis has here"
        )
    axes = axis_map(" ".join(str(size) if word == "_" else word for word, size in zip(words, shape, strict=True)))
    path = () if sample.path == (name,) else sample.path
    own_axes = "" if sample.is_size else axes
    kind = _kind(sample, float_dtype)
    return compose(takes(name, own_axes, LIKE.format(name), kind=kind, path=path), _dummy_sizes(axes, shape))


def _kind(sample: SampleTensor, float_dtype: str) -> Kind:
    """The kind of an input: `int` and `float` for the dtypes of ids and of the weights, which edits can change."""
    kind = tensor_kind(sample.tensor, {float_dtype} & {*DTYPES})
    if kind is None:
        dtype = str(sample.tensor.dtype).removeprefix("torch.")
        advice = COMPLEX if sample.tensor.is_complex() else "convert it to a dtype of these, and convert it back inside"
        raise InvalidSpec(f"{sample.name!r} is {dtype}, and inputs of ONNX are {', '.join(DTYPES)}; {advice}")
    return kind


def _dummy_sizes(axes: AxisMap, shape: tuple[int, ...]) -> ExportSpec:
    """The sizes of axes that are a name, or a multiple of a name. A size of 0 or 1 grows: torch.export would fix it."""
    sizes = {
        name: name_size
        for axis, size in zip(axes.axes, shape, strict=True)
        if axis.kind == "dynamic"
        for name, name_size in solve_for_name(axis.symbol, size).items()
    }
    return sized(**{symbol: max(size, SMALLEST_DYNAMIC_SIZE) for symbol, size in sizes.items()})


QUANTIZED = "torch.ao.nn.quantized"
"""The package of torch whose layers have quantized weights."""


def check_module(model: Any) -> None:
    """Raises InvalidSpec for what has no `forward`, for TorchScript, and for weights without a shape or quantized."""
    import torch
    from torch.nn.parameter import is_lazy

    name = type(model).__name__
    if not isinstance(model, torch.nn.Module) or getattr(model.forward, "__func__", None) is torch.nn.Module.forward:
        advice = "pass model.__call__" if callable(model) else "pass a module or a function"
        raise InvalidSpec(f"{name} is not a function and has no forward; {advice}")
    scripted = [path for path, module in model.named_modules() if isinstance(module, torch.jit.ScriptModule)]
    if scripted:
        raise InvalidSpec(f"{name} holds TorchScript at {listed(scripted)}; put the {SCRIPTED} there")
    if any(is_lazy(weight) for weight in model.parameters()):
        raise InvalidSpec(f"{name} has weights without a shape; run it once on the sample first: model(...)")
    quantized = {type(module).__name__ for module in model.modules() if type(module).__module__.startswith(QUANTIZED)}
    if quantized:
        raise InvalidSpec(
            f"{name} has layers that torch quantized: {listed(sorted(quantized))}; export the model before it is "
            "quantized, and quantize the ONNX file with onnxruntime.quantization"
        )


def check_results(name: str, runs: Sequence[Run]) -> None:
    """Raises InvalidSpec for results that no graph has: no tensor, complex numbers, or another structure in a run."""
    first = runs[0]
    if not first.shapes:
        raise InvalidSpec(
            f"{name} returns no tensor; return one or more, also in tuples, lists, dicts, named tuples or dataclasses"
        )
    names = output_names(first.shapes)
    if twice := [each for each in names if names.count(each) > 1]:
        raise InvalidSpec(f"two outputs of {name} have the name {twice[0]!r}; return them under other keys")
    if complex_paths := [path for run in runs for path in run.complex_paths]:
        raise InvalidSpec(
            f"{onnx_name(complex_paths[0])!r} of {name} is complex, which outputs of ONNX are not; return "
            "torch.view_as_real(tensor)"
        )
    for other in runs:
        if other.shapes.keys() != first.shapes.keys():
            raise InvalidSpec(
                f"{name} returns {len(first.shapes)} tensors at {_sizes(first)} and {len(other.shapes)} at "
                f"{_sizes(other)}; a graph has a fixed number of outputs: return one stacked tensor, or leave the axis "
                "static in `axes`"
            )
        for output, (path, shape) in zip(names, first.shapes.items(), strict=True):
            if len(shape) != len(other.shapes[path]):
                raise InvalidSpec(
                    f"{output!r} of {name} has the shape {list(shape)} at {_sizes(first)} and {[*other.shapes[path]]} "
                    f"at {_sizes(other)}; a graph has a fixed number of axes: return as many at all sizes"
                )


def _sizes(run: Run) -> str:
    return ", ".join(f"{name}={size}" for name, size in run.sizes.items()) or "other values"


def with_own_buffers(copied: Any) -> None:
    """Gives a copy of a model copies of its buffers, so that it changes none of the model's."""
    copies: dict[int, Any] = {}
    for module in copied.modules():
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = copies.setdefault(id(buffer), buffer.clone())


def size_generators(tensors: Iterable[SampleTensor], axes: Mapping[str, str]) -> dict[str, Generator]:
    """The generators of the whole numbers of a sample that are sizes of axes."""
    names = [each.name for each in tensors if each.is_size]
    nested = {name: {"of": NestedDummy("uniform", axes[name])} for name in names}
    return {name: Generator(name, "size", of, f"given: {axes[name]}") for name, of in nested.items()}


Range = tuple[float, float]
"""The smallest number, and the end: for integers the first that does not occur, as in `range`."""

REFUSED = "assumed: the range of the sample, since the module refuses others"


def specified_range(name: str, tensor: Any, limits: Range) -> Generator:
    """The generator for a range that the user gave. InvalidSpec if it is empty, or not a range of the dtype."""
    kind = _values(tensor).dtype.kind
    is_pair = isinstance(limits, tuple) and len(limits) == 2 and all(isinstance(end, (int, float)) for end in limits)  # noqa: PLR2004
    if kind == "b" or not is_pair or limits[0] >= limits[1]:
        advice = "write (low, high), two numbers, for a tensor of numbers"
        raise InvalidSpec(f"the range of {name!r} is {limits!r}; {advice}")
    function, number = ("uniform", float) if kind == "f" else ("integers", int)
    low, high = map(number, limits)
    return Generator(name, function, {"low": low, "high": high}, "given")


def indexed_range(name: str, tensor: Any, limits: tuple[int, int]) -> Generator:
    """The generator for a range of indices that runs of the module showed; it is below 0 only if the sample is."""
    low, high = limits
    smallest, _ = _ends(_values(tensor), (0, 0))
    reason = f"found: it indexes {high - low} elements"
    return Generator(name, "integers", {"low": min(max(low, 0), smallest), "high": high}, reason)


def assumed_range(name: str, tensor: Any) -> Generator:
    """The generator for values beyond a sample: both values of a mask, other scales of real numbers, more integers."""
    values = _values(tensor)
    mask = _mask_values(values)
    if mask is not None:
        words = " and ".join(map(str, sorted(mask, key=float)))
        return Generator(name, "two_values", {"first": mask[0], "second": mask[1]}, f"assumed: {words}, as in a mask")
    if values.dtype.kind == "f":
        low, high = _ends(values, (0.0, 0.0))
        if low == high:  # a single number gets others around it, which have its sign
            low, high = (-1.0, 1.0) if low == 0 else (low - abs(low) / 2, high + abs(high) / 2)
        return Generator(name, "scaled", {"low": low, "high": high}, f"assumed: the sample at {len(SCALES)} scales")
    return _integers(name, values)


def sample_range(name: str, tensor: Any) -> Generator:
    """The generator for values between the smallest and the largest of a sample."""
    values = _values(tensor)
    if values.dtype.kind == "f":
        low, high = _ends(values, (0.0, 1.0))
        return Generator(name, "uniform", {"low": low, "high": high}, REFUSED)
    low, high = _ends(values, (0, 0))
    return Generator(name, "integers", {"low": int(low), "high": high + 1}, REFUSED)


def sample_itself(name: str, tensor: Any) -> Generator | None:
    """The generator for the integers of a sample in their order; None for other tensors, and for a large one."""
    values = _values(tensor)
    if values.dtype.kind not in "iu" or not 0 < values.size <= 4096:  # noqa: PLR2004 - a spec repeats them
        return None
    numbers = " ".join(map(str, values.flat))
    return Generator(name, "repeated", {"numbers": numbers}, "assumed: the sample, since the module refuses others")


def _values(tensor: Any) -> Array:
    """The values of a tensor; numpy has no bfloat16."""
    plain = tensor.detach().cpu().resolve_conj()
    values: Array = (plain.float() if str(plain.dtype) == "torch.bfloat16" else plain).numpy()
    return values


def _ends(values: Array, others: tuple[Any, Any]) -> tuple[Any, Any]:
    """The smallest and the largest finite value; `others` if there is none."""
    finite = values[np.isfinite(values)]
    return (finite.min().item(), finite.max().item()) if finite.size else others


def _mask_values(values: Array) -> tuple[float | str, float | str] | None:
    """The values of a mask, that of its first element first; None for others, and for real zeros: a first state."""
    unique = set(np.unique(values).tolist()) if values.size > 1 or values.dtype.kind == "b" else {None}
    first = values.flat[0].item() if values.size else 0
    if -np.inf in unique and unique <= {0.0, -np.inf}:
        return (0, "-inf") if first == 0 else ("-inf", 0)
    if unique <= {0, 1} and not (unique == {0} and values.dtype.kind == "f"):
        return int(first), 1 - int(first)
    return None


def _integers(name: str, values: Array) -> Generator:
    """All integers of a small dtype, else the range of the sample once more at each end; none below 0 if none is."""
    limits = np.iinfo(values.dtype)
    smallest, largest = _ends(values, (0, 1))
    least = 0 if smallest >= 0 else int(limits.min)
    if values.dtype.itemsize <= 2:  # noqa: PLR2004 - bytes
        arguments = {"low": least, "high": int(limits.max) + 1}
        return Generator(name, "integers", arguments, f"assumed: every {values.dtype.name}")
    span = max(largest - smallest, 1)
    arguments = {"low": max(smallest - span, least), "high": min(largest + span, int(limits.max)) + 1}
    return Generator(name, "integers", arguments, "assumed: the range of the sample, and as much at its ends")

"""What a model gives and cache_row: seen by running it on dummies of several sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from attrs import frozen

from onnxfn.graphs.capture.forward import LOCK, raw_forward, tensors_for
from onnxfn.graphs.capture.model_state import unchanged_eval
from onnxfn.graphs.capture.patching import applied
from onnxfn.graphs.capture.quiet import quiet
from onnxfn.specs.axes import value
from onnxfn.specs.compose import compose
from onnxfn.specs.dummies import dummies
from onnxfn.specs.edits.caches import cache_row
from onnxfn.specs.facts import gives
from onnxfn.specs.getters import constant
from onnxfn.specs.plan.check_cases import cases, in_case
from onnxfn.specs.planned import PlannedSpec
from onnxfn.specs.spec import ExportSpec
from onnxfn.specs.tensor_paths import Path

# What a result holds layer by layer, or to go on from, or to be trained by, and not as an answer.
AUXILIARY_FIELDS = ("loss", "past_key_values", "hidden_states", "attentions", "cache_params", "mems", "router_logits")

STATE_NAMES: Mapping[str, str] = MappingProxyType({"conv_states": "conv", "recurrent_states": "recurrent"})
"""What a layer of a cache holds that does not grow, and what it is called in ONNX."""


Tensors = Mapping[Path, Any]


@frozen
class Run:
    """What one run of a model gave: the sizes of its dummies, and for each tensor its path and its shape."""

    sizes: Mapping[str, int]
    shapes: Mapping[Path, tuple[int, ...]]


def run(model: Any, spec: PlannedSpec) -> Any:
    """What the `forward` of a model gives for the dummies of a planned spec."""
    import torch

    with LOCK, quiet(), unchanged_eval(model), applied(spec.call.patches), torch.no_grad():
        return raw_forward(model, spec)(tensors_for(model, dummies(spec, {})))


def run_at_sizes(model: Any, spec: PlannedSpec, told: Callable[[Any], Tensors]) -> tuple[Run, ...]:
    """What a model gives for the dummies of a planned spec, and for those of each case of its check.

    `told` says which tensors of a result count.
    """
    tried = (spec, *(in_case(spec, one) for one in cases(spec)))
    return tuple(Run(_sizes(one), _shapes(told(run(model, one)))) for one in tried)


def outputs_spec(runs: Sequence[Run]) -> ExportSpec:
    """A spec of the outputs that every one of these runs gave, each axis by the size that it follows.

    One that comes alone and has no name is called `output`.
    """
    first = runs[0]
    common = [path for path in first.shapes if len({len(run.shapes.get(path, ())) for run in runs}) == 1]
    return compose(*(_output_spec("output" if common == [(0,)] else onnx_name(path), path, runs) for path in common))


def cache_spec(cache: Any) -> ExportSpec:
    """A spec of what the layers of a cache of transformers hold after a run; an empty one where there are none."""
    rows: dict[tuple[str, str], list[int]] = {}
    for layer, held in enumerate(getattr(cache, "layers", ())):
        for row in _layer_states(held):
            rows.setdefault(row, []).append(layer)
    names = [name for name, _ in rows]
    return compose(
        *(
            _state_spec(name, axes, layers, "" if names.index(name) == place else str(place))
            for place, ((name, axes), layers) in enumerate(rows.items())
        )
    )


def all_tensors(result: Any, path: Path = ()) -> Tensors:
    """Every tensor of a result, by its path."""
    if hasattr(result, "shape") and hasattr(result, "dtype"):
        return {path: result}
    steps = result.items() if isinstance(result, Mapping) else enumerate(result if _is_sequence(result) else ())
    return {at: tensor for step, one in steps for at, tensor in all_tensors(one, (*path, step)).items()}


def answer_tensors(result: Any) -> Tensors:
    """The tensors with which a model of transformers answers; of nests only where nothing else is there."""
    found = {path: one for path, one in all_tensors(result).items() if not any(map(_is_auxiliary, path))}
    plain = {path for path in found if len(path) == 1}
    return {path: one for path, one in found.items() if path in plain or not plain}


def onnx_name(path: Path) -> str:
    """What a tensor at a path of a result is called in ONNX.

    >>> called(("text_model_output", "pooler_output")), called((1,)), called(("boxes",))
    ('text_model_output.pooler_output', 'output_1', 'boxes')
    """
    return ".".join(map(str, path)) if isinstance(path[0], str) else "output_" + "_".join(map(str, path))


def _sizes(spec: PlannedSpec) -> dict[str, int]:
    told = {one.name: one.value for one in spec.dummies.sizes if isinstance(one.value, int)}
    moving = (one.symbol for made in spec.inputs for one in made.axes.axes if one.kind == "dynamic")
    return {symbol: value(symbol, told) for symbol in moving}


def _shapes(tensors: Tensors) -> dict[Path, tuple[int, ...]]:
    return {path: tuple(one.shape) for path, one in tensors.items()}


def _is_sequence(result: Any) -> bool:
    return isinstance(result, (tuple, list))


def _is_auxiliary(step: str | int) -> bool:
    return isinstance(step, str) and (
        step in AUXILIARY_FIELDS or step.endswith(("_hidden_states", "_attentions", "_loss"))
    )


def _output_spec(name: str, path: Path, runs: Sequence[Run]) -> ExportSpec:
    sizes = zip(*(run.shapes[path] for run in runs), strict=True)
    words = (_axis_word(name, axis, found, runs) for axis, found in enumerate(sizes))
    return gives(name, " ".join(words), path=() if path == (name,) else path)


def _axis_word(name: str, axis: int, found: Sequence[int], runs: Sequence[Run]) -> str:
    """How a pattern says an axis that had these sizes: not at all, by the size that it follows, or by its own name."""
    if len(set(found)) == 1:
        return "_"
    follows = (
        symbol
        for symbol in runs[0].sizes
        if all(run.sizes[symbol] == size for run, size in zip(runs, found, strict=True))
    )
    return next(follows, f"{name.replace('.', '_')}_axis_{axis}").replace(" ", "")


def _layer_states(layer: Any) -> Iterator[tuple[str, str]]:
    """What a layer of a cache holds: the name of each row, and its axes, `{}` where it grows."""
    for name in ("keys", "values"):
        tensor = getattr(layer, name, None)
        if tensor is not None and tensor.ndim == 4:  # noqa: PLR2004 - batch, heads, length, size
            yield name.removesuffix("s"), f"batch_size {tensor.shape[1]} {{}} {tensor.shape[3]}"
    for name in STATE_NAMES:
        for index, tensor in dict(getattr(layer, name, None) or {}).items():
            if tensor is not None:
                yield f"{name}.{index}", " ".join(("batch_size", *map(str, tensor.shape[1:])))


def _state_spec(name: str, axes: str, layers: Sequence[int], kind: str) -> ExportSpec:
    attribute, _, index = name.partition(".")
    state = f"{STATE_NAMES[attribute]}{'' if index == '0' else index}" if index else ""
    return cache_row(
        f"{kind} {state or name}".strip(),
        axes.format("past_sequence_length"),
        output_axes=axes.format("past_sequence_length+sequence_length"),
        input_name=f"past_{state}.{{layer}}" if state else f"past_key_values.{{layer}}.{name}",
        output_name=f"present_{state}.{{layer}}" if state else f"present.{{layer}}.{name}",
        attribute=name if state else f"{name}s",
        layers=constant(tuple(layers)),
    )

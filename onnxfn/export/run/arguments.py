"""The arguments of an export, checked, and adapters that stay inputs."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

from onnxfn.check.check import adapter_report
from onnxfn.check.variants.proof import Proof, as_written
from onnxfn.export.derive.derive_sample import FROM_SAMPLE, HOW_TO_SPECIFY
from onnxfn.export.load.loading import load_weights
from onnxfn.graphs.passes.adapter_inputs import SUFFIXES, adapter_ports, is_selected
from onnxfn.models.casting import adapted_copy
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.algebra.planned import Plan
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.errors import InvalidSpec, ModelNotFound, OnnxfnError, unknown
from onnxfn.specs.results.measurements import Floors
from onnxfn.specs.stored.reports import Report, StageTimer
from onnxfn.weights.adapter_files import adapter_arrays, write_arrays
from onnxfn.weights.adapters import read_adapter
from onnxfn.weights.checkpoint_files import checkpoint_files


def merged_adapter(spec: ExportSpec, adapter: str | Path | None) -> str | Path | None:
    """The adapter that an export merges: None if its graphs take adapters as inputs."""
    return None if spec.target.adapter_inputs else adapter


def check_layers(model: Any, plan: Plan, graphs: Sequence[Any]) -> None:
    """Raises UnknownName if no graph of a plan has a layer that is to get the inputs of an adapter."""
    import torch

    ends = plan.parts[0].spec.target.adapter_inputs
    layers = {name.removesuffix(SUFFIXES[0]) for graph in graphs if ends for name in adapter_ports(graph)}
    for end in ends or ():
        if not any(is_selected(layer, (end,)) for layer in layers):
            linear = (name for name, each in model.named_modules() if isinstance(each, torch.nn.Linear))
            known = dict.fromkeys(name.rpartition(".")[2] for name in linear)
            raise unknown("linear layer", end, known, of=type(model).__name__)


def write_input_adapter(adapter: Path, plan: Plan, graphs: Sequence[Any], folder: Path) -> list[Path]:
    """Writes an adapter next to each graph that takes it; returns the paths. InvalidSpec for a layer without inputs."""
    known = [name for graph in graphs for name in adapter_ports(graph)]
    arrays = adapter_arrays(read_adapter(adapter), _dtype(plan))
    for name in arrays:
        if name not in known:
            raise InvalidSpec(
                f"the adapter {adapter} changes {name.removesuffix(SUFFIXES[0])}, for which the graph has no inputs; "
                "name its layer in with_adapter_inputs"
            )
    by_part = {
        part.name: own for part, graph in zip(plan.parts, graphs, strict=True) if (own := _own_arrays(graph, arrays))
    }
    end = f"{'_fp16' if _dtype(plan) == 'float16' else ''}.onnx_adapter"
    return [
        write_arrays(own, folder / f"{adapter.resolve().name}{f'_{name}' if len(by_part) > 1 else ''}{end}")
        for name, own in by_part.items()
    ]


def check_with_adapter(
    model: Any, plan: Plan, graphs: Sequence[Any], folder: Path, adapter: Path, timed: StageTimer, floors: Floors
) -> tuple[Report, ...]:
    """The report on each part whose inputs an adapter fills, against the model with the adapter merged."""
    merged = adapted_copy(model, adapter)
    arrays = adapter_arrays(read_adapter(adapter), _dtype(plan))
    reports = []
    for part, graph in zip(as_written(plan, folder).parts, graphs, strict=True):
        own = _own_arrays(graph, arrays)
        if own:
            with timed("check", part.name) as tick:
                reports.append(
                    adapter_report(merged, part, folder / f"{part.name}.onnx", own, tick, Proof(None, floors))
                )
    return tuple(reports)


def _own_arrays(graph: Any, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Those of the arrays of an adapter that are inputs of a graph."""
    return {name: arrays[name] for name in adapter_ports(graph) if name in arrays}


def _dtype(plan: Plan) -> Any:
    return plan.parts[0].spec.target.float_dtype or "float32"


UNREADABLE: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(
            ("torch.distributed.fsdp", "torch.distributed._composable"),
            "splits its weights over processes; export the model as it was before that, with the whole weights loaded",
        ),
        "torch.ao.nn.quantized": "has layers that torch.ao quantized: their weights are not tensors; export the model "
        "as it was before that",
    }
)
"""The package of a module's class -> why the module's weights cannot be read, and advice."""


def name_without_value(model: Any) -> str | None:
    """The name of the first weight on the meta device, which has a shape and no value; None if all have values."""
    tensors = chain(model.named_parameters(), model.named_buffers())
    return next((name for name, tensor in tensors if tensor.is_meta), None)


def check_values(model: Any) -> None:
    """Raises InvalidSpec if a weight of a module of PyTorch has no value."""
    name = name_without_value(model)
    if name is not None:
        advice = "load its weights first, or pass checkpoint=, the folder of its checkpoint"
        if any(hasattr(module, "_hf_hook") for module in model.modules()):
            advice = (
                "accelerate keeps them elsewhere: load the model without device_map, or pass checkpoint=, its folder"
            )
        raise InvalidSpec(f"{type(model).__name__} has weights without values, on the meta device: {name}; {advice}")


def with_checkpoint_weights(model: Any, checkpoint: str | Path | None) -> Any:
    """The model; if a weight has no value, a model of its class with the weights of a checkpoint in its dtype."""
    is_loadable = hasattr(type(model), "from_pretrained") and hasattr(model, "config")
    if checkpoint is None or not is_loadable or name_without_value(model) is None:
        return model
    return load_weights(model, str(checkpoint))


def check_export_arguments(spec: Any, model: Any, path: Any, checkpoint: Any) -> None:
    """Raises InvalidSpec for a wrong spec, module or destination, and errors for a checkpoint that is not complete."""
    check_model(spec, model)
    is_of_bytes = callable(getattr(path, "write", None)) and not hasattr(path, "encoding")
    is_open = is_of_bytes and not getattr(path, "closed", False) and getattr(path, "writable", lambda: True)()
    if not (isinstance(path, str | PathLike | None) or is_open):
        raise InvalidSpec(f"path is of the type {type(path).__name__}; pass a path, None, or a file open for bytes")
    if checkpoint is not None and not Path(checkpoint).is_dir():
        raise ModelNotFound(
            f"no folder {str(checkpoint)!r}; pass the folder of the model's checkpoint, or leave checkpoint out"
        )
    if checkpoint is not None:
        checkpoint_files(Path(checkpoint))


def check_model(spec: Any, model: Any) -> None:
    """Raises InvalidSpec for what is no spec, or no module whose weights can be read, also on the meta device."""
    import torch

    if not isinstance(spec, ExportSpec):
        raise InvalidSpec(f"spec is of the type {type(spec).__name__}; pass an ExportSpec, such as spec_for(model)")
    if not isinstance(model, torch.nn.Module):
        kind = type(model).__name__
        raise InvalidSpec(f"model is of the type {kind}; pass a torch.nn.Module, such as model_for(folder)")
    classes = dict.fromkeys(kind for module in model.modules() for kind in type(module).__mro__)
    reasons = (UNREADABLE[name] for kind in classes for name in UNREADABLE if kind.__module__.startswith(name))
    if reason := next(reasons, None):
        raise InvalidSpec(f"{type(model).__name__} {reason}")


def provider_remarks(plan: Plan, graphs: Sequence[Any]) -> tuple[str, ...]:
    """What is slow in the program that the spec is for. InvalidSpec for what it refuses; no weight is read."""
    if plan.parts[0].spec.target.provider is None:
        return ()
    from onnxfn.graphs.providers.checks import provider_lines

    return provider_lines(plan, graphs)


@contextmanager
def provenance_in_errors(spec: ExportSpec) -> Iterator[None]:
    """Adds to an error about a derived spec what it was derived from, and how to write the spec by hand."""
    try:
        yield
    except OnnxfnError as error:
        if spec.derived is not None:
            advice = "" if spec.derived.endswith(FROM_SAMPLE) else f"; if that is wrong, {HOW_TO_SPECIFY}"
            error.args = (f"{error}; the spec was derived from {spec.derived}{advice}",)
        raise

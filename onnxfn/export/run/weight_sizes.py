"""The bytes of the weights of each file of an export, from shapes alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from pathlib import Path
from typing import Any

from attrs import evolve

from onnxfn.export.load.loading import load_configuration, model_without_weights
from onnxfn.export.run.planned_files import plan_of_variants
from onnxfn.graphs.quantization.quantized_operators import REPLACEMENTS
from onnxfn.models.dtypes import dtypes_in, float_dtype
from onnxfn.models.submodules import submodule_of
from onnxfn.specs.algebra.config_values import config_of
from onnxfn.specs.algebra.planned import Part, Plan, WeightBytes
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.plan.planning import Decoders, plan
from onnxfn.specs.quantization import INTEGERS, ReadingOperator, WeightRule, rule_for
from onnxfn.weights.layouts import OPTIMUM, LayoutName, layout_of
from onnxfn.weights.quantized import MATRIX_RANK, conv_rule, quantized_shape, roles


def weight_bytes(
    spec: ExportSpec,
    model: Any,
    dtypes: Iterable[str] = (),
    *,
    decoders: Decoders = "merged",
    layout: LayoutName = OPTIMUM,
) -> dict[str, int]:
    """The bytes of the weights of each ONNX file of an export. No weight is read, and nothing is written.

    Only weights are counted: a file is larger by its nodes, names and constants, by 0.3 MB for a Llama of 30 layers.
    The bytes of float dtypes are those of the model's own weights. The bytes of quantized dtypes follow from the rules
    and the modules that own a weight; they are within 2 %. With `weight_storage="share"` a weight of several files is
    stored once, but counted for each of them.

    Args:
        spec: The spec of the export.
        model: A model, also one on the meta device, or the folder of a checkpoint of transformers: its configuration
            is read, its weights are not.
        dtypes: Names of dtypes, as for `export`. Empty: that of the spec, or that of the model.
        decoders: The decoder files, as for `export`.
        layout: The layout, which gives files their names.

    Returns:
        From the name of each ONNX file to the bytes of its weights.

    Raises:
        MissingValue: The configuration lacks a value that the spec reads.
        UnknownName: One of `dtypes`, `decoders` or `layout` is not a known value.

    >>> import torch
    >>> from onnxfn import derived
    >>> model = torch.nn.Linear(4, 2)
    >>> spec = derived(model, sample={"input": torch.randn(3, 4)})
    >>> weight_bytes(spec, model, ("float32", "float16"))
    {'model.onnx': 40, 'model_fp16.onnx': 20}
    """
    is_model = hasattr(model, "state_dict")
    config = config_of(model) if is_model else load_configuration(Path(model))
    planned = plan_of_variants(
        spec, dtypes, lambda each: plan(each, config or {}, decoders=decoders), layout_of(layout)
    )
    known = model if is_model else model_without_weights(config, planned.parts[0].spec)
    return {f"{size.part}.onnx": size.bytes for size in with_weight_bytes(planned, known).weight_bytes}


def with_weight_bytes(planned: Plan, model: Any) -> Plan:
    """A plan with the size of the weights of each part, in its dtype."""
    sizes = [WeightBytes(part.name, _part_bytes(planned, part, model)) for part in planned.parts]
    return evolve(planned, weight_bytes=tuple(sizes))


def _part_bytes(planned: Plan, part: Part, model: Any) -> int:
    import torch

    name, rules = part.spec.target.float_dtype, part.spec.target.quantization
    dtype = getattr(torch, name) if name else float_dtype(model)
    dtypes = dtypes_in(model, dtype)
    return sum(
        _weight_bytes(model, tensor, modules, rules, dtypes.get(id(tensor), dtype).itemsize)
        for tensor, modules in _weights(planned, part, model)
    )


def _weight_bytes(model: Any, tensor: Any, modules: list[Any], rules: Sequence[WeightRule], itemsize: int) -> int:
    """The bytes of a weight by the rule that selects it; as floats without a rule, or if that is smaller."""
    floats = int(tensor.numel()) * itemsize
    operators = tuple(dict.fromkeys(filter(None, map(_operator, modules))))
    if not rules or tensor.ndim < MATRIX_RANK:
        return floats
    names = [name for name, other in model.state_dict(keep_vars=True).items() if other is tensor]
    rule = rule_for(rules, names, operators)
    if rule is None or not operators or any((rule.kind, operator) not in REPLACEMENTS for operator in operators):
        return floats
    shape = tuple(tensor.shape)
    if "Conv" in operators:
        rule = conv_rule(rule)
    elif _has_inputs_first(modules) != (rule.kind in INTEGERS):
        shape = shape[::-1]
    sizes = {"codes": 1, "scales": 2 if rule.kind == "blocks" else itemsize, "zero_points": 1}
    return min(floats, sum(prod(quantized_shape(rule, role, shape)) * sizes[role] for role in roles(rule)))


def _operator(module: Any) -> ReadingOperator | None:
    """The operator that reads the weight of a module."""
    import torch

    if isinstance(module, torch.nn.Embedding):
        return "Gather"
    if isinstance(module, torch.nn.Conv1d | torch.nn.Conv2d | torch.nn.Conv3d):
        return "Conv"
    return "MatMul" if isinstance(module, torch.nn.Linear) or _has_inputs_first([module]) else None


def _has_inputs_first(modules: list[Any]) -> bool:
    """Whether the weight of a linear layer has the axes `[inputs, outputs]`, as in GPT-2."""
    return any(type(module).__name__ == "Conv1D" for module in modules)


def _weights(planned: Plan, part: Part, model: Any) -> list[tuple[Any, list[Any]]]:
    """The float weights that the graph of a part reads: those of its module, except weights that only linked parts use.

    A decoder with the outputs of an encoder as inputs reads no weights of the encoder, except a shared table.
    """
    names = {link.part for link in part.spec.links}
    linked = [_module(model, other) for other in planned.parts if other.name in names]
    inner = {id(module) for other in linked if other is not model for module in other.modules()}
    owners = _owners(_module(model, part))
    return [owned for owned in owners if any(id(module) not in inner for module in owned[1])]


def _module(model: Any, part: Part) -> Any:
    """The module whose weights the graph of a part reads. One without weights calls the model, as that of timm does."""
    if part.spec.call.submodule == "token_embeddings":
        return model.get_input_embeddings()
    submodule = submodule_of(model, part.spec.call.submodule)
    return submodule if submodule.state_dict() else model


def _owners(root: Any) -> list[tuple[Any, list[Any]]]:
    """The float parameters and stored buffers of a module, each once, with the modules that own it.

    A module may have several paths. A state dict may have names of its own: then `root` owns what they name.
    """
    modules, owners = dict(root.named_modules(remove_duplicate=False)), dict[int, tuple[Any, list[Any]]]()
    for name, tensor in root.state_dict(keep_vars=True).items():
        if hasattr(tensor, "is_floating_point") and tensor.is_floating_point():
            owner = modules.get(name.rpartition(".")[0], root)
            owners.setdefault(id(tensor), (tensor, []))[1].append(owner)
    return list(owners.values())

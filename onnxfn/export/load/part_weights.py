"""The weights that the graph of a part reads, and the bytes of each by a rule, from shapes alone."""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

from attrs import frozen

from onnxfn.graphs.quantization.quantized_operators import REPLACEMENTS
from onnxfn.models.dtypes import dtypes_in, float_dtype
from onnxfn.models.submodules import submodule_of
from onnxfn.specs.algebra.planned import Part, Plan
from onnxfn.specs.quantization import INTEGERS, ReadingOperator, WeightRule, rule_for
from onnxfn.weights.quantized import MATRIX_RANK, conv_rule, has_half_scales, quantized_shape, roles


@frozen(eq=False)
class PartWeight:
    """A float weight that the graph of a part reads, its `names` in the model, and the rule that quantizes it, if any.

    `perm`: the order of its axes as rows and columns in blocks; empty for its own. `bytes_by`: from another rule to its
    bytes; as floats without a rule, or if that is smaller.
    """

    names: tuple[str, ...]
    tensor: Any
    rule: WeightRule | None
    perm: tuple[int, ...]
    bytes_by: Callable[[WeightRule | None], int]


def part_weights(planned: Plan, part: Part, model: Any) -> list[PartWeight]:
    """The float weights that the graph of a part reads, each once."""
    import torch

    name, rules = part.spec.target.float_dtype, part.spec.target.quantization
    dtype = getattr(torch, name) if name else float_dtype(model)
    dtypes, names = dtypes_in(model, dtype), dict[int, tuple[str, ...]]()
    for path, tensor in model.state_dict(keep_vars=True).items():
        names[id(tensor)] = (*names.get(id(tensor), ()), path)

    def weight(tensor: Any, modules: list[Any]) -> PartWeight:
        own, operators = names.get(id(tensor), ()), tuple(dict.fromkeys(filter(None, map(_operator, modules))))
        rule = rule_for(rules, own, operators) if tensor.ndim >= MATRIX_RANK else None
        is_known = operators and rule and all((rule.kind, operator) in REPLACEMENTS for operator in operators)
        perm = (1, 0) if _has_inputs_first(modules) else ()
        size = partial(_weight_bytes, tensor, operators, perm, dtypes.get(id(tensor), dtype).itemsize)
        return PartWeight(own, tensor, rule if is_known else None, perm, size)

    return [weight(*owned) for owned in _weights(planned, part, model)]


def _weight_bytes(
    tensor: Any, operators: Sequence[str], perm: tuple[int, ...], itemsize: int, rule: WeightRule | None
) -> int:
    """The bytes of a weight by a rule; as floats without one, or if that is smaller."""
    floats, shape = int(tensor.numel()) * itemsize, tuple(tensor.shape)
    if rule is None:
        return floats
    if "Conv" in operators:
        rule = conv_rule(rule)
    elif bool(perm) != (rule.kind in INTEGERS):
        shape = shape[::-1]
    sizes = {"codes": 1, "scales": 2 if has_half_scales(rule) else itemsize, "zero_points": 1}
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
    """The float weights that the graph of a part reads; a decoder reads none of its encoder but a shared table."""
    names = {link.part for link in part.spec.links}
    linked = [_module(model, other) for other in planned.parts if other.name in names]
    inner = {id(module) for other in linked if other is not model for module in other.modules()}
    return [owned for owned in _owners(_module(model, part)) if any(id(module) not in inner for module in owned[1])]


def _module(model: Any, part: Part) -> Any:
    """The module whose weights the graph of a part reads. One without weights calls the model, as that of timm does."""
    if part.spec.call.submodule == "token_embeddings":
        return model.get_input_embeddings()
    submodule = submodule_of(model, part.spec.call.submodule)
    return submodule if submodule.state_dict() else model


def _owners(root: Any) -> list[tuple[Any, list[Any]]]:
    """The float parameters and stored buffers of a module, each once, with its owners; `root` owns other names."""
    modules, owners = dict(root.named_modules(remove_duplicate=False)), dict[int, tuple[Any, list[Any]]]()
    for name, tensor in root.state_dict(keep_vars=True).items():
        if hasattr(tensor, "is_floating_point") and tensor.is_floating_point():
            owners.setdefault(id(tensor), (tensor, []))[1].append(modules.get(name.rpartition(".")[0], root))
    return list(owners.values())

"""The passes that store weights as codes: by the rules of a spec, and as a quantized checkpoint stores them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any

from attrs import evolve

from onnxfn.graphs.nodes.nodes import DOMAIN, compute_by, import_domain, is_operator, shape_of
from onnxfn.graphs.nodes.slots import SLOT, Slot, slot_of
from onnxfn.graphs.passes.definitions import define_operators
from onnxfn.graphs.quantization.quantized_operators import (
    REPLACEMENTS,
    Read,
    StoredWeight,
    weight_reads,
    with_cast_scales,
)
from onnxfn.graphs.quantization.quantized_slots import add_quantized_slots
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.quantization import INTEGERS, WeightRule, rule_for
from onnxfn.weights.packed.quantized_checkpoint import QuantizedWeight
from onnxfn.weights.packed.stored_blocks import ROLES, bits_of, block_size, blocks_tensor, scale_dtype, stored_weight
from onnxfn.weights.quantized import MATRIX_RANK, conv_rule, has_half_scales, quantized_shape, roles

KERNELS = ((4, 0), (4, 1), (4, 4), (8, 4))
"""The bits and the accuracy levels of QMoE: 2 bits are turned into floats at each run, 8 always round activations."""

NotQuantized = tuple[tuple[str, str], ...]
"""`(name, reason)` of each weight that a rule selects but that is not quantized."""

Names = Mapping[str, Sequence[str]]
"""From the name of a parameter to all names that it has in the model, where it has several."""


def quantize_weights(
    model: Any, rules: Sequence[WeightRule], names: Names = MappingProxyType({})
) -> tuple[Any, NotQuantized]:
    """Quantizes the weights that rules select; also returns the selected ones that are not, with the reasons.

    Before: a finished graph, whose parameters are slots without values. After: the selected weights are quantized
    slots, and other operators read them. No weight is read.
    """
    from onnx_ir.passes import common

    def rule_of(value: Any) -> WeightRule | None:
        slot, operators = slot_of(value), tuple(dict.fromkeys(read.operator for read in weight_reads(value)[0]))
        return None if slot is None else rule_for(rules, names.get(slot.parameter, (slot.parameter,)), operators)

    model, left = expand_experts(model, rule_of), list[tuple[str, str]]()
    for value in list(model.graph.initializers.values()):
        slot = slot_of(value)
        if slot is None or len(shape_of(value)) < MATRIX_RANK or slot.parameter.endswith("bias"):
            continue  # one bias for each expert: vectors that a lookup reads as it reads the rows of a table
        reads, problem = weight_reads(value)
        rule = rule_of(value)
        reason = "" if rule is None else problem or _obstacle(value, reads, rule)
        if reason:
            left.append((slot.parameter, reason))
        elif rule is not None:
            _quantize(model.graph, value, reads, rule)
    # A node in a branch of an If may not have the name of one outside.
    return common.NameFixPass()(import_domain(model)).model, tuple(left)


def _obstacle(value: Any, reads: Sequence[Read], rule: WeightRule) -> str:
    """Why a weight cannot be quantized as a rule says; empty if it can."""
    computed = ("FLOAT",) if rule.kind in INTEGERS else ("FLOAT", "FLOAT16")  # by the kernels of a CPU
    if value.dtype.name not in computed:
        return f"ONNX Runtime has no kernel for {rule.kind!r} weights of a graph in {value.dtype.name.lower()}"
    without = [read.operator for read in reads if (rule.kind, read.operator) not in REPLACEMENTS]
    if without or not reads:
        return f"{without[0] if without else 'nothing'} reads it, and {rule.kind!r} has no operator for that"
    if len({read.rows_first for read in reads}) > 1:
        return "products and lookups read it along different axes, so they cannot share its blocks"
    _, shape = _stored(value, reads, rule)
    sizes = {"codes": 1, "scales": 2 if has_half_scales(rule) else 4, "zero_points": 1}
    about = sum(prod(quantized_shape(rule, role, shape)) * sizes[role] for role in roles(rule))
    return "its codes and scales would not be smaller" if about >= prod(shape) * value.dtype.itemsize else ""


def _quantize(graph: Any, value: Any, reads: Sequence[Read], rule: WeightRule) -> None:
    """Replaces a weight by its codes, and the nodes that read it."""
    if any(read.operator == "Conv" for read in reads):
        rule = conv_rule(rule)
    slot, shape = _stored(value, reads, rule)
    tensors = add_quantized_slots(graph, value, slot, rule, shape)
    weight = with_cast_scales(StoredWeight(graph, rule, shape, tensors, value.dtype), reads)
    for read in reads:
        REPLACEMENTS[rule.kind, read.operator](weight, read.node)
        read.node.graph.remove(read.node, safe=True)
    for transpose in {read.transpose for read in reads if read.transpose is not None}:
        transpose.graph.remove(transpose, safe=True)
    del graph.initializers[value.name]


def _stored(value: Any, reads: Sequence[Read], rule: WeightRule) -> tuple[Slot, tuple[int, ...]]:
    """The slot and the shape of a weight with its axes in the order in which the rule stores them."""
    slot: Slot = value.meta[SLOT]
    if reads[0].operator == "Conv" or reads[0].rows_first != (rule.kind in INTEGERS):
        return slot, tuple(value.shape)
    perm = (slot.perm or (0, 1))[::-1]
    return evolve(slot, perm=() if perm == (0, 1) else perm), tuple(value.shape)[::-1]  # type: ignore[arg-type]


def keep_stored_blocks(model: Any, tensors: Mapping[str, Any]) -> tuple[Any, tuple[str, ...]]:
    """Lets products read quantized weights as a checkpoint stores them; also returns the names of these weights.

    Before: all slots are bound to float tensors; parameters that were dequantized have the quantized weight.
    After: where only products read one, they are MatMulNBits. InvalidSpec if the dtype cannot hold the scales.
    """
    names: list[str] = []
    for value in list(model.graph.initializers.values()):
        slot = slot_of(value)
        weight = None if slot is None or slot.perm != (1, 0) else stored_weight(tensors[slot.parameter])
        # It is the right operand of products, and nothing else.
        are_products = all(is_operator(use.node, "MatMul") and use.idx == 1 for use in value.uses())
        if slot is not None and weight is not None and are_products and not value.is_graph_output():
            _replace_products(model, value, weight)
            names.append(slot.parameter)
    return import_domain(model), tuple(names)


def _replace_products(model: Any, value: Any, weight: QuantizedWeight) -> None:
    """Lets products with a weight read its integers, scales and zero points. InvalidSpec if the dtype has no kernel."""
    dtype = scale_dtype(weight).name
    if value.dtype.name != "FLOAT" and (value.dtype.name, dtype) != ("FLOAT16", "float16"):
        raise InvalidSpec(
            f"{weight.name} has scales in {dtype}, and a graph in {value.dtype.name.lower()} "
            "cannot keep them; export in float32, or dequantize the checkpoint (--dequantize, dequantize=True)"
        )
    inputs = [_initializer(model, value, weight, role) for role in ROLES]
    sizes = {"K": int(value.shape[0]), "N": int(value.shape[1]), "block_size": block_size(weight)}
    attributes = {**sizes, "bits": bits_of(weight), "accuracy_level": 1}  # computes in float32
    for node in [use.node for use in value.uses()]:
        compute_by(node.outputs[0], f"{DOMAIN}::MatMulNBits", [node.inputs[0], *inputs], **attributes)
        node.graph.remove(node, safe=True)
    del model.graph.initializers[value.name]


def _initializer(model: Any, value: Any, weight: QuantizedWeight, role: Any) -> Any:
    import onnx_ir

    tensor = blocks_tensor(weight, role, value.dtype)
    tensor.name = f"{value.name}_{role}"
    initializer = onnx_ir.val(tensor.name, const_value=tensor)
    model.graph.register_initializer(initializer)
    return initializer


def expand_experts(model: Any, rule_of: Callable[[Any], Any]) -> Any:
    """Replaces experts by small operators where `rule_of` gives a matrix a rule whose codes no kernel of QMoE reads."""
    from onnx_ir.passes import common

    nodes = [each for each in model.graph.all_nodes() if each.op_type == "MoE"]
    pairs = [[(value, rule_of(value)) for value in (node.inputs[2], node.inputs[4])] for node in nodes]
    if all(map(_is_for_kernel, pairs)):
        return model
    return common.InlinePass(lambda function: function.name == "MoE")(define_operators(model)).model


def _is_for_kernel(pairs: Any) -> bool:
    """Whether no matrix of experts gets blocks, or both get blocks that a kernel reads without a copy as floats."""
    (_, rule), (_, other) = pairs
    if all(each is None or each.kind != "blocks" for each in (rule, other)):
        return True
    if rule != other or not rule.symmetric or (rule.bits, rule.accuracy_level) not in KERNELS:
        return False
    return not any(value.shape[-1] % rule.block_size for value, _ in pairs)

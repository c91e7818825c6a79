"""Tiny quantized checkpoints, packed value by value, and the float weights that they stand for.

A packer returns the stored tensors of a weight, by the ends of their names, and its float values. Both are written from
the description of the format, as loops; nothing of `onnxfn.weights` is used.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from attrs import evolve, field, frozen
from safetensors.torch import save_file

Packed = tuple[dict[str, torch.Tensor], np.ndarray]
GROUP = 16


def integers(random, bits, *shape):
    return random.integers(0, 2**bits, shape)


def scales(random, *shape):
    return (random.random(shape) * 0.02 + 0.01).astype(np.float16)


def into_words(values, bits):
    """A list of integers as 32-bit words: the first value in the lowest bits."""
    number = sum(int(value) << bits * index for index, value in enumerate(values))
    count = len(values) * bits // 32
    return [((number >> 32 * index) & 0xFFFFFFFF) for index in range(count)]


def words(rows, bits):
    return torch.from_numpy(np.array([into_words(row, bits) for row in rows], np.uint32).view(np.int32))


def dequantized(values, zeros, scale, of_group):
    """The weight of integers [rows, columns]: each less the zero point of its row and group, times their scale."""
    weight = np.empty(values.shape, np.float32)
    for row, column in np.ndindex(values.shape):
        place = row, of_group[column]
        weight[row, column] = np.float32(int(values[row, column]) - int(zeros[place])) * np.float32(scale[place])
    return weight


def gptq(random, out, width, bits=4, group=GROUP, *, act_order=False, v2=False) -> Packed:
    """GPTQ: words hold columns of one output; zero points less one hold outputs of one group."""
    groups = width // group
    values, zeros = integers(random, bits, out, width), integers(random, bits, groups, out)
    scale = scales(random, groups, out)
    of_group = random.permutation(width) // group if act_order else np.arange(width) // group
    stored_zeros = zeros if v2 else (zeros - 1) % 2**bits
    tensors = {
        ".qweight": words(values, bits).T.contiguous(),
        ".qzeros": words(stored_zeros, bits),
        ".scales": torch.from_numpy(scale),
        ".g_idx": torch.from_numpy(of_group.astype(np.int32)),
    }
    return tensors, dequantized(values, zeros.T, scale.T, of_group)


def awq(random, out, width, group=GROUP) -> Packed:
    """AWQ: a word holds eight outputs of one column, in the order 0 2 4 6 1 3 5 7."""
    groups = width // group
    values, zeros = integers(random, 4, width, out), integers(random, 4, groups, out)
    scale = scales(random, groups, out)
    weight = dequantized(values.T, zeros.T, scale.T, np.arange(width) // group)

    def packed(table):
        order = [8 * start + index for start in range(out // 8) for index in (0, 2, 4, 6, 1, 3, 5, 7)]
        return words(table[:, order], 4)

    return {".qweight": packed(values), ".qzeros": packed(zeros), ".scales": torch.from_numpy(scale)}, weight


def fp8(random, out, width, block=(8, GROUP), end=".weight_scale_inv") -> Packed:
    """FP8: `value * scale` of its block."""
    values = torch.from_numpy(random.normal(size=(out, width)).astype(np.float32)).to(torch.float8_e4m3fn)
    scale = (random.random((-(-out // block[0]), -(-width // block[1]))) * 0.2).astype(np.float32)
    floats = values.float().numpy()
    weight = np.array([[floats[i, j] * scale[i // block[0], j // block[1]] for j in range(width)] for i in range(out)])
    return {".weight": values, end: torch.from_numpy(scale)}, weight


def packed4(random, out, width, group=GROUP, *, symmetric=True) -> Packed:
    """compressed-tensors: values less 8 are signed; words hold columns, zero points in words of rows."""
    values, groups = integers(random, 4, out, width), width // group
    zeros = np.full((out, groups), 8) if symmetric else integers(random, 4, out, groups)
    scale = scales(random, out, groups)
    weight = dequantized(values, zeros, scale, np.arange(width) // group)
    tensors = {".weight_packed": words(values, 4), ".weight_scale": torch.from_numpy(scale)}
    if not symmetric:
        tensors[".weight_zero_point"] = words(zeros.T, 4).T.contiguous()
    return {**tensors, ".weight_shape": torch.tensor([out, width])}, weight


FP4 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def mxfp4(random, experts, width, out) -> Packed:
    """MXFP4: the first of two values is in the lower bits; 32 values share an exponent. The weight is transposed."""
    codes = integers(random, 4, experts, out, width // 32, 32)
    exponents = random.integers(118, 124, (experts, out, width // 32))
    weight = np.empty((experts, width, out), np.float32)
    for expert, row, group, index in np.ndindex(codes.shape):
        code = codes[expert, row, group, index]
        sign = -1.0 if code & 8 else 1.0
        exponent = int(exponents[expert, row, group]) - 127
        weight[expert, 32 * group + index, row] = sign * FP4[code & 7] * 2.0**exponent
    blocks = (codes[..., 0::2] | codes[..., 1::2] << 4).astype(np.uint8)
    return {"_blocks": torch.from_numpy(blocks), "_scales": torch.from_numpy(exponents.astype(np.uint8))}, weight


@frozen
class Format:
    """A format: its packer, the `quantization_config`, and the name of its method in messages."""

    pack: Callable[..., Packed]
    settings: Mapping[str, Any]
    name: str
    arguments: Mapping[str, Any] = field(factory=dict)


def _gptq(bits, **more):
    settings = {"quant_method": "gptq", "bits": bits, "group_size": GROUP, "desc_act": False, "sym": False}
    return Format(gptq, settings, f"GPTQ with {bits} bits", {"bits": bits, **more})


AWQ_SETTINGS = {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm", "zero_point": True}
FP8_SETTINGS = {"quant_method": "fp8", "weight_block_size": [8, GROUP], "activation_scheme": "dynamic"}
CT = {"quant_method": "compressed-tensors", "format": "pack-quantized"}

FORMATS: Mapping[str, Format] = {
    "gptq": _gptq(4),
    "gptq 8": _gptq(8),
    "gptq 3": _gptq(3, group=GROUP),
    "gptq 2": _gptq(2),
    "gptq act-order": _gptq(4, act_order=True),
    "gptq v2": evolve(_gptq(4, v2=True), settings={"quant_method": "gptq", "bits": 4, "checkpoint_format": "gptq_v2"}),
    "gptq long": _gptq(4, group=32),
    "awq": Format(awq, AWQ_SETTINGS, "AWQ with 4 bits"),
    "fp8": Format(fp8, FP8_SETTINGS, "FP8"),
    "fp8 rows": Format(fp8, {"quant_method": "fbgemm_fp8"}, "FP8", {"block": (1, 99), "end": ".weight_scale"}),
    "packed": Format(packed4, CT, "compressed-tensors with packed integers"),
    "packed asym": Format(packed4, CT, "compressed-tensors with packed integers", {"symmetric": False}),
    "ct fp8": Format(fp8, CT, "compressed-tensors with 8 bits", {"block": (1, 99), "end": ".weight_scale"}),
}
"""The formats of linear layers."""


def write_checkpoint(model, folder, chosen: Format, is_quantized=lambda name: "_proj" in name, seed=0):
    """Writes a model with its linear layers quantized at random; returns its float weights."""
    random = np.random.default_rng(seed)
    model.save_pretrained(folder)
    stored, expected = {}, {}
    for name, tensor in model.state_dict().items():
        if tensor.ndim == 2 and is_quantized(name):
            parts, weight = chosen.pack(random, *tensor.shape, **chosen.arguments)
            stored |= {name.removesuffix(".weight") + end: part.clone() for end, part in parts.items()}
            expected[name] = torch.from_numpy(np.asarray(weight, np.float32))
        else:
            stored[name], expected[name] = tensor.clone(), tensor.clone()
    return write_tensors(folder, stored, chosen.settings), expected


def write_tensors(folder, tensors, settings):
    """Writes the tensors of a checkpoint and its `quantization_config`; returns the bytes of the tensors."""
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"quantization_config": dict(settings)}))
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())

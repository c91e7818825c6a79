"""Rules for the weights of a graph that are stored in fewer bits. The last rule that selects a weight wins."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from math import inf
from types import MappingProxyType
from typing import Any, Literal

from attrs import field

from onnxfn.specs.converters import as_tuple
from onnxfn.specs.errors import InvalidSpec, shortened
from onnxfn.specs.record import record

ReadingOperator = Literal["MatMul", "Gather", "Conv"]
"""An operator that reads a weight. A `Gemm` and a MatMul after a Transpose are `MatMul`."""

QuantizationKind = Literal["blocks", "dynamic", "static", "nf4", "as is"]
"""The values of `WeightRule.kind`."""

INTEGERS = DYNAMIC, STATIC = "dynamic", "static"
"""The kinds of rules whose codes have the axes that the operator reads, and whose activations are integers, too."""

BITS: Mapping[str, tuple[int, ...]] = MappingProxyType({"blocks": (2, 4, 8), DYNAMIC: (8,), STATIC: (8,), "nf4": (4,)})
"""The kind of a rule -> the bits that ONNX Runtime has kernels for."""

REACH = 2
"""How many steps a calibrated code may be from its weight, before both are rounded."""

SMALLEST_BLOCK = 16
"""The smallest block of the kernels of ONNX Runtime; the others are powers of two."""

MATRICES: tuple[ReadingOperator, ...] = ("MatMul", "Gather")
"""The operators that read matrices of linear layers and embedding tables."""

UNITS: Mapping[str, int] = MappingProxyType({"kB": 10**3, "MB": 10**6, "GB": 10**9})
"""The units of a limit of bytes."""


@record
class Within:
    """A limit within which an export chooses the bits of weights.

    Attributes:
        measure: `bytes`: those of all weights of a file. `kl`: the KL divergence of the distribution over tokens from
            PyTorch's, as the export predicts it.
        most: The largest value of the measure.

    Raises:
        UnknownName: Another measure.
        InvalidSpec: `most` is not a positive number.

    >>> str(Within("bytes", 600_000_000)), str(Within("kl", 0.1))
    ('600 MB', 'kl=0.1')
    """

    measure: Literal["bytes", "kl"]
    most: float

    def __attrs_post_init__(self) -> None:
        if not 0 < self.most < inf:
            raise InvalidSpec(f"within {self.measure} is at most {self.most}; write a positive number")

    def __str__(self) -> str:
        return f"kl={self.most:.15g}" if self.measure == "kl" else f"{self.most / UNITS['MB']:.15g} MB"


def kl(most: float) -> Within:
    """A limit of KL divergence, for `quantize(spec, within=kl(0.1))`.

    Args:
        most: The most KL divergence of the distribution over tokens from PyTorch's, in nats.

    Raises:
        InvalidSpec: It is not a positive number.

    >>> kl(0.1)
    Within(measure='kl', most=0.1)
    """
    return Within("kl", most)


def within_of(limit: Any) -> Any:
    """The limit in a text, `"0.6 GB"` or `"kl=0.1"`; another value unchanged. InvalidSpec for another text."""
    if not isinstance(limit, str):
        return limit
    match = re.fullmatch(r"kl=([0-9.e-]+)|([0-9.e-]+) ?(kB|MB|GB)", limit)
    most, number, unit = match.groups() if match is not None else ("", "", "")
    try:
        return Within("kl", float(most)) if unit is None else Within("bytes", round(float(number) * UNITS.get(unit, 0)))
    except ValueError:
        raise InvalidSpec(f"within is {shortened(limit)}; write '0.6 GB', or a KL divergence, 'kl=0.1'") from None


@record
class WeightRule:
    """The storage of the weights that a rule selects. Vectors, such as a bias, are never quantized.

    Attributes:
        where: A pattern of `fnmatch` for the name of the parameter: `"*lm_head*"`. A tied weight has several names; it
            is enough that one matches.
        bits: Bits of an element: 2, 4 or 8 for `"blocks"`, 8 for `"dynamic"` and `"static"`, 4 for `"nf4"`.
        block_size: Elements that share a scale: a power of two, at least 16. Only `"blocks"` and `"nf4"` have them.
        symmetric: Whether zero is in the middle of the codes; else each block has a zero point.
        kind: `"blocks"`: weights in blocks, activations in floats: MatMulNBits, GatherBlockQuantized. `"dynamic"`:
            8-bit integers times activations that are quantized while the graph runs: MatMulInteger, ConvInteger.
            `"static"`: int8 times activations in 8 bits, whose scales are measured before: QuantizeLinear and
            DequantizeLinear around the operators of floats (QDQ), as accelerators read them.
            `"nf4"`: blocks with the 16 levels of NormalFloat4: MatMulBnb4. `"as is"`: the weights stay.
        signed: Whether the weights of `"dynamic"` are int8; else uint8. Whether the activations of `"static"` are int8
            with zero in the middle, as TensorRT needs them; else uint8 with a zero point.
        per_channel: Whether each output channel of `"dynamic"` or `"static"` has its own scale; else a weight has one.
        accuracy_level: The numbers in which MatMulNBits of `"blocks"` computes. 0: floats, 1: float32, 4: 8-bit
            integers. A token of SmolLM2 in 8 bits takes 170 ms at level 0 and 22 at level 4, on a CPU; the divergence
            is 0.0012 and 0.0056. In 4 bits the levels differ less: 20 and 15 ms, 0.404 and 0.408.
        calibrated: Whether the codes of `"blocks"` are chosen so that products with real inputs change least: those of
            an expert with the tokens that reach it. Experts that few tokens reach, tables that no product reads, and
            parts of a plan that read no text keep the nearest codes.
        within: A limit within which the export chooses the bits of each weight: those of the rule, or more, up to the
            floats of the graph. Its model must return the logits of tokens of a text.
        read_by: Operators, one of which must read the weight: `"MatMul"` (also for Gemm), `"Gather"` (a lookup of
            embeddings), `"Conv"`. Empty: any operator.

    Raises:
        UnknownName: `kind` is not a known value.
        InvalidSpec: ONNX Runtime has no kernel for the bits or the block size.

    >>> WeightRule("*lm_head*", bits=8)
    WeightRule(where='*lm_head*', bits=8)
    """

    where: str = "*"
    bits: int = 4
    block_size: int = 32
    symmetric: bool = True
    kind: QuantizationKind = "blocks"
    signed: bool = True
    per_channel: bool = True
    accuracy_level: int = 0
    calibrated: bool = False
    within: Within | None = field(default=None, converter=within_of)
    read_by: tuple[ReadingOperator, ...] = field(default=(), converter=as_tuple)

    def __attrs_post_init__(self) -> None:
        if self.kind in BITS and self.bits not in BITS[self.kind]:
            raise InvalidSpec(
                f"ONNX Runtime has no kernel for {self.kind!r} weights of {self.bits} bits; "
                f"possible: {', '.join(map(str, BITS[self.kind]))}"
            )
        if self.block_size < SMALLEST_BLOCK or self.block_size.bit_count() > 1:
            raise InvalidSpec(f"block_size is {self.block_size}; possible: powers of two from {SMALLEST_BLOCK}")
        if self.calibrated and self.kind != "blocks":
            raise InvalidSpec(f"weights of the kind {self.kind!r} cannot be calibrated; those in 'blocks' can")
        if self.within is not None and self.kind != "blocks":
            raise InvalidSpec(f"weights of the kind {self.kind!r} have one number of bits; within is for 'blocks'")
        if self.accuracy_level not in range(5):
            raise InvalidSpec(f"accuracy_level is {self.accuracy_level}; possible: 0 to 4")


def unique_rules(rules: Iterable[WeightRule]) -> tuple[WeightRule, ...]:
    """Rules, each once, at its last place: the last rule that selects a weight wins."""
    every = as_tuple(rules)
    return tuple(rule for index, rule in enumerate(every) if rule not in every[index + 1 :])


def is_selected(rule: WeightRule, names: Iterable[str], operators: Iterable[str] = ()) -> bool:
    """Whether a rule selects a weight: by one of its names in the model, and by one of the operators that read it."""
    is_read = not rule.read_by or not {*rule.read_by}.isdisjoint(operators)
    return is_read and any(fnmatchcase(name, rule.where) for name in names)


def rule_for(rules: Sequence[WeightRule], names: Sequence[str], operators: Sequence[str] = ()) -> WeightRule | None:
    """The last rule that selects a weight; None if there is none, or if that rule has the kind `"as is"`."""
    rule = next((rule for rule in reversed(rules) if is_selected(rule, names, operators)), None)
    return None if rule is None or rule.kind == "as is" else rule

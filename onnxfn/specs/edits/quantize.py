"""The edit that stores weights in fewer bits."""

from __future__ import annotations

from onnxfn.specs.algebra.compose import compose
from onnxfn.specs.algebra.spec import ExportSpec, Target
from onnxfn.specs.edits.as_edit import as_edit
from onnxfn.specs.quantization import MATRICES, Condition, QuantizationKind, WeightRule


@as_edit
def quantize(
    spec: ExportSpec,
    bits: int = 4,
    where: Condition | str = MATRICES,
    *,
    block_size: int = 32,
    symmetric: bool = True,
    kind: QuantizationKind = "blocks",
    signed: bool = True,
    per_channel: bool = True,
    accuracy_level: int = 0,
) -> ExportSpec:
    """The spec with one more rule for weights that are stored in fewer bits. The last rule that selects a weight wins.

    `with_dtypes(spec, float="q4")` adds the rules of a dtype that clients load by name: see `QUANTIZED_DTYPES`.

    Args:
        spec: A spec.
        bits: Bits of an element: 2, 4 or 8 for `"blocks"`, 8 for `"dynamic"`, 4 for `"nf4"`.
        where: Which weights: a condition, or a text that the name of the parameter matches: `"*lm_head*"`. Left out:
            the matrices of linear layers and the tables of embeddings.
        block_size: Elements that share a scale: a power of two, at least 16.
        symmetric: Whether zero is in the middle of the codes; else each block has a zero point.
        kind: `"blocks"`, `"dynamic"`, `"nf4"`, or `"as is"`, which leaves the weights as they are: see `WeightRule`.
        signed: Whether the integers of `"dynamic"` are int8; else uint8.
        per_channel: Whether each output channel of `"dynamic"` has its own scale.
        accuracy_level: What MatMulNBits computes in: 0: what is fastest, 1: float32, 4: 8-bit integers.

    Raises:
        UnknownName: `kind` is not a known value.
        InvalidSpec: ONNX Runtime has no kernel for the bits or the block size, or `where` is no condition.

    >>> from onnxfn import EMPTY
    >>> spec = quantize(quantize(EMPTY, bits=4), bits=8, where="*lm_head*")
    >>> [rule.bits for rule in spec.target.quantization]
    [4, 8]
    """
    rule = WeightRule(where, bits, block_size, symmetric, kind, signed, per_channel, accuracy_level)
    return compose(spec, ExportSpec(target=Target(quantization=(rule,))))

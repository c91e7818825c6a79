"""Edits of weights: in fewer bits, and LoRA adapters as inputs of the graph."""

from __future__ import annotations

from typing import Any

from onnxfn.specs.algebra.compose import compose
from onnxfn.specs.algebra.spec import ExportSpec, Target
from onnxfn.specs.edits.as_edit import as_edit
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.quantization import MATRICES, WeightRule, Within


@as_edit
def quantize(
    spec: ExportSpec, /, bits: int = 4, where: str | None = None, *, within: str | Within | None = None, **options: Any
) -> ExportSpec:
    """The spec with one more rule for weights that are stored in fewer bits. The last rule that selects a weight wins.

    `with_dtypes(spec, float="q4")` adds the rules of a dtype that clients load by name: see `QUANTIZED_DTYPES`.

    Args:
        spec: A spec.
        bits: Bits of an element: 2, 4 or 8 for `"blocks"`, 8 for `"dynamic"` and `"static"`, 4 for `"nf4"`.
        where: A pattern for the name of the parameter: `"*lm_head*"`. Left out: the matrices of linear layers and the
            tables of embeddings.
        within: A limit: bytes of the weights of a file, `"0.6 GB"`, or a KL divergence, `kl(0.1)`. The export measures
            how much each weight costs in `bits`, and chooses the bits of each: these, more, or floats. It takes the
            least KL divergence within the bytes, or the fewest bytes within the KL divergence. The weights are
            calibrated if `options` do not say otherwise.
        options: Other fields of `WeightRule`, which has their meanings: `kind="dynamic"`, `block_size=64`,
            `symmetric=False`, `read_by=["MatMul"]`, `signed`, `per_channel`, `accuracy_level`, `calibrated`.

    Raises:
        UnknownName: `kind` is not a known value.
        TypeError: `WeightRule` has no such field.
        InvalidSpec: ONNX Runtime has no kernel for the bits or the block size, or `within` is no limit.

    >>> from onnxfn.facts import EMPTY
    >>> spec = quantize(quantize(EMPTY, bits=4), bits=8, where="*lm_head*")
    >>> [rule.bits for rule in spec.target.quantization]
    [4, 8]
    """
    selection: dict[str, Any] = {"read_by": MATRICES} if where is None else {"where": where}
    chosen = {} if within is None else {"within": within, "calibrated": True}
    rule = WeightRule(**{"bits": bits, **selection, **chosen, **options})
    return compose(spec, ExportSpec(target=Target(quantization=(rule,))))


@as_edit
def with_adapter_inputs(spec: ExportSpec, *layers: str) -> ExportSpec:
    """The spec with a LoRA adapter of some linear layers as inputs, so that one graph serves many adapters.

    Each layer gets two inputs, `<layer>.lora_A.weight` and `<layer>.lora_B.weight`, of the shapes
    `[in_features, rank]` and `[rank, out_features]`. They have empty defaults: without an adapter the graph
    computes what the model does. `write_adapter` writes the file that ONNX Runtime gives to these inputs.

    Args:
        spec: A spec.
        layers: Names of linear layers, or their ends, as the `target_modules` of PEFT: `"q_proj"`, `"v_proj"`.

    Raises:
        InvalidSpec: No layer is named.

    >>> from onnxfn.facts import EMPTY
    >>> with_adapter_inputs(EMPTY, "v_proj", "q_proj").target.adapter_inputs
    ('v_proj', 'q_proj')
    """
    if not layers:
        raise InvalidSpec("with_adapter_inputs names no layer; write with_adapter_inputs(spec, 'q_proj', 'v_proj')")
    return compose(spec, ExportSpec(target=Target(adapter_inputs=layers)))

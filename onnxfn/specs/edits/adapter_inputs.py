"""The edit that makes LoRA adapters inputs of the graph."""

from __future__ import annotations

from onnxfn.specs.algebra.compose import compose
from onnxfn.specs.algebra.spec import ExportSpec, Target
from onnxfn.specs.edits.as_edit import as_edit
from onnxfn.specs.errors import InvalidSpec


@as_edit
def with_adapter_inputs(spec: ExportSpec, *layers: str) -> ExportSpec:
    """The spec whose graph takes a LoRA adapter for some of its linear layers, so that one graph serves many adapters.

    Each layer gets two inputs, `<layer>.lora_A.weight` and `<layer>.lora_B.weight`, of the shapes
    `[in_features, rank]` and `[rank, out_features]`. They have empty defaults: without an adapter the graph
    computes what the model does. `write_adapter` writes the file that ONNX Runtime gives to these inputs.

    Args:
        spec: A spec.
        layers: Names of linear layers, or their ends, as the `target_modules` of PEFT: `"q_proj"`, `"v_proj"`.

    Raises:
        InvalidSpec: No layer is named.

    >>> from onnxfn import EMPTY
    >>> with_adapter_inputs(EMPTY, "v_proj", "q_proj").target.adapter_inputs
    ('v_proj', 'q_proj')
    """
    if not layers:
        raise InvalidSpec("with_adapter_inputs names no layer; write with_adapter_inputs(spec, 'q_proj', 'v_proj')")
    return compose(spec, ExportSpec(target=Target(adapter_inputs=layers)))

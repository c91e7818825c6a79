"""Adapters in the form that ONNX Runtime gives to the inputs of a graph."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from onnxfn.specs.errors import InvalidSpec, write_errors
from onnxfn.weights.adapters import Adapter, read_adapter
from onnxfn.weights.onnx_files import onnx_model

VERSION = 1
"""The version of the adapter and of its model that the file states; ONNX Runtime does not compare them."""


def write_adapter(
    adapter: str | Path,
    path: str | Path,
    *,
    float: Literal["float32", "float16"] = "float32",  # noqa: A002 - the word of with_dtypes
    graph: str | Path | None = None,
) -> Path:
    """Writes a LoRA adapter as a file for a graph with the inputs of `with_adapter_inputs`.

    `onnxruntime.LoraAdapter().Load(path)` reads the file, and `RunOptions.add_active_adapter` gives it to a run.

    Args:
        adapter: The folder of a LoRA adapter that PEFT wrote.
        path: The file, `<name>.onnx_adapter` by convention.
        float: The dtype of the graph.
        graph: The ONNX file of the adapter, if the adapted layers are in several files. Only the inputs of this file
            are written: the other layers need a file of their own.

    Returns:
        The path of the file.

    Raises:
        ModelNotFound: There is no adapter in the folder.
        LoadFailed: A file of the adapter is damaged.
        InvalidSpec: The adapter changes more than linear layers, has a feature that is not known, or has nothing for
            `graph`; or `float` is another dtype.
        WriteFailed: The operating system refuses to write the file.

    >>> import json, pathlib, tempfile, torch
    >>> from safetensors.torch import save_file
    >>> shapes = {"base_model.model.q.lora_A.weight": (2, 8), "base_model.model.q.lora_B.weight": (4, 2)}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 2}))
    ...     tensors = {name: torch.ones(shape) for name, shape in shapes.items()}
    ...     save_file(tensors, f"{folder}/adapter_model.safetensors")
    ...     write_adapter(folder, f"{folder}/q.onnx_adapter").stat().st_size > 0
    True
    """
    arrays = adapter_arrays(read_adapter(adapter), float)
    if graph is not None:
        taken = {port.name for port in onnx_model(Path(graph)).graph.input}
        arrays = {name: array for name, array in arrays.items() if name in taken}
        if not arrays:
            raise InvalidSpec(f"the adapter {adapter} changes no layer for which {graph} has inputs")
    return write_arrays(arrays, Path(path))


def write_arrays(arrays: Mapping[str, Any], path: Path) -> Path:
    """Writes the arrays of inputs, by name, as an adapter of ONNX Runtime; returns the path of the file."""
    import onnxruntime

    file = onnxruntime.AdapterFormat()
    file.set_adapter_version(VERSION)
    file.set_model_version(VERSION)
    file.set_parameters({name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in arrays.items()})
    with write_errors(path):
        path.touch()  # ONNX Runtime's own error is no OSError
    file.export_adapter(str(path))
    return path


def adapter_arrays(adapter: Adapter, dtype: str) -> Mapping[str, Any]:
    """The arrays of the inputs of a graph, by name. The scale of the adapter is in those of B."""
    import torch

    if dtype not in ("float32", "float16"):
        raise InvalidSpec(f"the inputs of an adapter are float32 or float16, not {dtype}: numpy has no other")
    if adapter.tensors:
        raise InvalidSpec(
            f"the adapter {adapter.folder} has {next(iter(adapter.tensors))}, which is not an input of a graph; "
            "merge it: export(..., adapter=folder) without with_adapter_inputs"
        )
    arrays = {}
    for name, layer in adapter.layers.items():
        if layer.magnitude is not None or layer.is_table or layer.a.dim() != 2:  # noqa: PLR2004 - rows and columns
            raise InvalidSpec(
                f"the adapter {adapter.folder} changes {name} in a way that inputs cannot: DoRA, an embedding or a "
                "convolution; merge it: export(..., adapter=folder) without with_adapter_inputs"
            )
        to = getattr(torch, dtype)
        arrays[f"{name}.lora_A.weight"] = layer.a.float().T.contiguous().to(to).numpy()
        arrays[f"{name}.lora_B.weight"] = (layer.scale * layer.b.float()).T.contiguous().to(to).numpy()
    return arrays

"""The folder of a LoRA adapter that PEFT wrote, its configuration and its tensors; a weight merged with an adapter."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import regex
from attrs import field, frozen

from onnxfn.specs.errors import (
    InvalidSpec,
    LoadFailed,
    ModelNotFound,
    errors_as,
    first_line,
    listed,
    shortened,
    write_errors,
)
from onnxfn.weights.checkpoint_files import checkpoint_files

CONFIG, WEIGHTS, PICKLED = "adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"
"""The files of an adapter; the last is of older versions of PEFT."""

CHANGE = re.compile(r"(?P<layer>.+)\.(?P<kind>lora_(embedding_)?[AB]|lora_magnitude_vector)(\.weight)?")
"""The name of a tensor of a layer that an adapter changes."""

KEYS = (
    # Those that are read here. The tensors themselves have the ranks.
    *("peft_type", "r", "lora_alpha", "use_rslora", "alpha_pattern", "rank_pattern", "use_dora"),
    # Those about the training of the adapter, and those that follow from its tensors.
    *("auto_mapping", "base_model_name_or_path", "bias", "exclude_modules", "fan_in_fan_out", "inference_mode"),
    *("init_lora_weights", "layers_pattern", "layers_to_transform", "lora_dropout", "megatron_core", "modules_to_save"),
    *("peft_version", "qalora_group_size", "revision", "runtime_config", "target_modules", "task_type"),
    *("ensure_weight_tying", "eva_config", "loftq_config", "corda_config", "lora_ga_config"),
)
"""Known keys of a configuration."""


@frozen(eq=False)
class AdaptedLayer:
    """The part of an adapter for one layer, as torch tensors: its input times `a`, times `b`, times `scale`.

    `magnitude`: the norm of each row of the weight afterwards (DoRA), or None. `is_table`: the layer is an embedding.
    """

    a: Any = field(repr=False)
    b: Any = field(repr=False)
    scale: float
    magnitude: Any = field(default=None, repr=False)
    is_table: bool = False


@frozen(eq=False)
class Adapter:
    """A LoRA adapter: what it has for each layer, by name, and the parameters of the model that it replaces."""

    folder: Path
    layers: Mapping[str, AdaptedLayer] = field(repr=False)
    tensors: Mapping[str, Any] = field(repr=False)


def read_adapter(folder: str | Path) -> Adapter:
    """The adapter in a folder that PEFT wrote; InvalidSpec if it is no LoRA, or has an unsupported feature."""
    from safetensors.torch import load_file

    folder = Path(folder)
    _check_files(folder)
    with errors_as(lambda error: LoadFailed(f"the adapter {folder} cannot be read: {first_line(error)}")):
        config, tensors = json.loads((folder / CONFIG).read_bytes()), load_file(folder / WEIGHTS)
    if not isinstance(config, dict):
        raise LoadFailed(f"the adapter {folder} cannot be read: {CONFIG} holds no object")
    _check_features(folder, config)
    grouped: dict[str, dict[str, Any]] = {}
    others: dict[str, Any] = {}
    for key, tensor in tensors.items():
        # What PEFT adds: a prefix to each name, and a part to the names of the model's own tensors.
        name = re.sub(r"\.(base_layer|modules_to_save)(?=\.)", "", key.removeprefix("base_model.model."))
        if match := CHANGE.fullmatch(name):
            grouped.setdefault(match["layer"], {})[match["kind"]] = tensor
        else:
            others[name] = tensor
    try:
        layers = {name: _layer(folder, name, config, kinds) for name, kinds in grouped.items()}
    except (TypeError, AttributeError, InvalidSpec) as error:
        raise LoadFailed(f"the adapter {folder} cannot be read: a value of {CONFIG} is wrong: {error}") from error
    return Adapter(folder, layers, others)


def _check_files(folder: Path) -> None:
    """Raises ModelNotFound if a folder lacks a file of an adapter, LoadFailed if one is not a file in the folder."""
    if not folder.is_dir():
        raise ModelNotFound(f"no folder {str(folder)!r}; pass the folder of an adapter that PEFT wrote")
    files = sorted(file.name for file in folder.iterdir())
    if CONFIG not in files:
        raise ModelNotFound(f"no {CONFIG} in {folder}; files: {listed(files)}; pass the folder that PEFT wrote")
    if WEIGHTS not in files:
        advice = "; save it again with safe_serialization=True" if PICKLED in files else ""
        raise ModelNotFound(f"no {WEIGHTS} in {folder}; files: {listed(files)}{advice}")
    checkpoint_files(folder, (CONFIG, WEIGHTS))


def _check_features(folder: Path, config: Mapping[str, Any]) -> None:
    """Raises InvalidSpec for an adapter that is not a LoRA, or has an unsupported feature."""
    advice = "merge it with PEFT (merge_and_unload) and export the merged model"
    if config.get("peft_type") != "LORA":
        raise InvalidSpec(f"the adapter {folder} is of the type {config.get('peft_type')!r}, not LORA; {advice}")
    start = config.get("init_lora_weights")
    if start not in (True, False, None, "gaussian", "eva", "orthogonal"):
        raise InvalidSpec(
            f"the adapter {folder} has init_lora_weights={start!r}, with which PEFT changes the model's own weights; "
            f"{advice}"
        )
    unknown = [key for key, value in config.items() if value and key not in KEYS]
    if unknown:
        raise InvalidSpec(f"the adapter {folder} has {unknown[0]}={shortened(config[unknown[0]])}; {advice}")


def _layer(folder: Path, name: str, config: Mapping[str, Any], kinds: Mapping[str, Any]) -> AdaptedLayer:
    """The part of an adapter for one layer. LoadFailed if it lacks a tensor."""
    a, b = (kinds.get(f"lora_{letter}", kinds.get(f"lora_embedding_{letter}")) for letter in "AB")
    if a is None or b is None:
        raise LoadFailed(f"the adapter {folder} has no A or no B for {name}; it has: {listed(kinds)}")
    rank, patterns = len(a), config.get("alpha_pattern") or {}
    alpha = next((value for key, value in patterns.items() if is_match(key, name)), config.get("lora_alpha", 8))
    scale = alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)
    return AdaptedLayer(a, b, scale, kinds.get("lora_magnitude_vector"), "lora_embedding_A" in kinds)


ROWS = 256
"""Rows of a weight that are merged at once."""


def merged_weight(weight: Any, left: Any, right: Any, layer: AdaptedLayer) -> Any:
    """The torch parameter `weight + scale * left @ right`, in the dtype of the weight; for DoRA with its magnitudes."""
    # It is mapped from a deleted temporary file, so it is on disk and not in anonymous memory.
    import torch

    with TemporaryDirectory(prefix="onnxfn-") as name, write_errors(Path(name), weight.nbytes):
        file = Path(name, "weight")
        with file.open("wb") as opened:
            for rows in _merged_rows(weight.detach().flatten(1), left, right, layer):
                opened.write(rows.view(torch.uint8).numpy().data)
        merged = torch.from_file(str(file), shared=False, size=weight.numel(), dtype=weight.dtype)
    return torch.nn.Parameter(merged.view(weight.shape), requires_grad=weight.requires_grad)


def _merged_rows(matrix: Any, left: Any, right: Any, layer: AdaptedLayer) -> Iterator[Any]:
    """Rows of a merged matrix, computed in float32, or in float64 if the matrix has that."""
    import torch

    wide = torch.promote_types(matrix.dtype, torch.float32)
    for start in range(0, len(matrix), ROWS):
        rows = slice(start, start + ROWS)
        merged = matrix[rows].to(wide) + layer.scale * (left[rows].to(wide) @ right.to(wide))
        if layer.magnitude is not None:
            merged *= layer.magnitude.reshape(-1, 1)[rows] / torch.linalg.norm(merged, dim=1, keepdim=True)
        yield merged.to(matrix.dtype)


# A pattern comes with an adapter, so from anybody. Python's `re` may need hours for one, and `regex` all memory for
# `((a{1000}){1000}){1000}`.
PATTERN = re.compile(r"(\\[.dw]|\(\?:|\((?!\?)|[^\\({}]){0,1000}")
"""What a pattern may consist of. Of such patterns, some need long, and none much memory."""

KNOWN = "names, ., \\d, \\w, [0-9], (a|b), *, + and ?"

SECONDS = 0.3
"""The most time that a pattern may need for a name."""


def is_match(pattern: str, name: str) -> bool:
    """Whether a pattern fits a name, or its end after a dot, as PEFT says. InvalidSpec beyond `SECONDS`."""
    if not PATTERN.fullmatch(pattern):
        raise InvalidSpec(f"the pattern {shortened(pattern)} is of a kind that onnxfn does not know; known: {KNOWN}")
    try:
        return name == pattern or regex.match(rf"(.*\.)?({pattern})$", name, timeout=SECONDS) is not None
    except (TimeoutError, RecursionError, regex.error) as error:
        raise InvalidSpec(f"the pattern {shortened(pattern)} cannot be matched: {first_line(error)}") from None

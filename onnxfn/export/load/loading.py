"""Loads configurations and models from a folder or from the hub.

Weights are mapped from the files, in their dtype; an export converts them while it writes. Tables that a model computes
when it is loaded, as of positions, would be rounded to that dtype: such a model is loaded in float32.
"""

import json
from collections.abc import Iterable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from onnxfn.export.load.class_tasks import served_tasks, task_of
from onnxfn.export.load.folders import ADAPTER, checkpoint_folder
from onnxfn.export.load.load_errors import CONFIG, load_errors, no_bars, weights_ticked
from onnxfn.export.load.quantized import checked_quantization, load_dequantized
from onnxfn.models.pretrained import pretrained
from onnxfn.models.torch_modes import quiet
from onnxfn.specs.algebra.config_values import config_of
from onnxfn.specs.algebra.planned import PlannedSpec
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.converters import resolve
from onnxfn.specs.errors import InvalidSpec, LoadFailed, ModelNotFound, UnknownName, first_line, listed, unknown
from onnxfn.specs.stored.reports import Tick, no_tick
from onnxfn.specs.tasks.tasks import DEFAULT_TASK, WITH_PAST
from onnxfn.weights.checkpoint_files import checkpoint_files
from onnxfn.weights.checkpoint_links import entries

LIBRARY_LOADERS: Mapping[str, str] = MappingProxyType(
    {
        "diffusers": "diffusers:DiffusionPipeline.from_pretrained",
        "sentence_transformers": "sentence_transformers:SentenceTransformer",
        "timm": "timm:create_model",
    }
)
"""Library -> its function from a folder to a model."""


def load_configuration(folder: Path, *, trust_remote_code: bool = False) -> Any:
    """The configuration in the folder of a checkpoint; LoadFailed if it needs code without `trust_remote_code`."""
    from transformers import AutoConfig
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    with load_errors(str(folder), f"transformers cannot read a configuration from {folder / CONFIG}"), quiet():
        checkpoint_files(folder)
        content = json.loads((folder / CONFIG).read_bytes())
        model_type, classes = content.get("model_type"), content.get("architectures")
        if model_type is None and "architecture" in content:
            raise LoadFailed(f"{folder / CONFIG} is one of timm, which names an architecture; add --library timm")
        if not isinstance(classes, list | str | None):
            raise LoadFailed(f"{folder / CONFIG} has architectures of the type {type(classes).__name__}, not a list")
        if not trust_remote_code and content.get("auto_map") and model_type not in CONFIG_MAPPING:
            advice = "it runs only if you trust it: trust_remote_code=True (--trust-remote-code)"
            raise LoadFailed(f"{folder} has its own code for the model type {model_type!r}; {advice}")
        return pretrained(AutoConfig.from_pretrained, folder, trust_remote_code=trust_remote_code)


def load_model(
    name: str,
    config: Any,
    spec: ExportSpec | PlannedSpec,
    *,
    trust_remote_code: bool = False,
    as_stored: bool = False,
    dequantize: bool = False,
    revision: str | None = None,
    tick: Tick = no_tick,
) -> Any:
    """The model of a checkpoint for the task of a spec, in float32 for any dtype of the checkpoint.

    With `as_stored`, weights of 16 bits stay so; the configuration declares float32. With `dequantize`, quantized
    weights become floats. `revision`: a commit on the hub. InvalidSpec for a checkpoint for another task, or without
    weights, which would be random. LoadFailed if weights have other shapes, or are quantized without `dequantize`.
    """
    _check_head(name, config, spec)
    how = {"trust_remote_code": trust_remote_code, **({"revision": revision} if revision else {})}
    load = partial(_load_floats, spec=spec, how=how, as_stored=as_stored, tick=tick)
    quantized = checked_quantization(name, config, dequantize=dequantize)
    if quantized is None:
        return load(name, config)
    read_config = partial(load_configuration, trust_remote_code=trust_remote_code)
    return load_dequantized(quantized, lambda folder: load(str(folder), read_config(folder)), dequantize=dequantize)


def _load_floats(
    name: str, config: Any, *, spec: ExportSpec | PlannedSpec, how: Mapping[str, Any], as_stored: bool, tick: Tick
) -> Any:
    """The model of a checkpoint that is not quantized, as `load_model` returns it; `how` are more arguments."""
    import transformers

    class_name = spec.call.loader or "AutoModel"
    loader = getattr(transformers, class_name, None)
    if loader is None:
        raise LoadFailed(f"transformers has no class {class_name}, which {name} is a checkpoint of; pass a task")
    if (Path(name) / ADAPTER).exists() and find_spec("peft") is None:
        raise LoadFailed(f"{name} has an adapter ({ADAPTER}), which needs peft: pip install peft, or remove that file")
    dtype = stored_dtype(Path(name), config) if as_stored else None
    with load_errors(name, f"{name} could not be loaded with {class_name}"), quiet(), weights_ticked(tick):
        model, info = _loaded(loader, name, dtype or "float32", **how)
        if dtype is not None and has_rounded_tables(model, info["missing_keys"]):
            model, info = _loaded(loader, name, "float32", **how)
    declare_float32(model.config)
    # Checkpoints of models with a head often lack the pooler. Only an output of the pooler needs its weights.
    needs_pooler = any({"pooler_output", "text_embeds"} & {*output.forward_path} for output in spec.outputs)
    needed = [key for key in info["missing_keys"] if needs_pooler or "pooler" not in key.split(".")]
    _check_weights(name, model, info["mismatched_keys"], needed)
    return model


def load_weights(model: Any, name: str) -> Any:
    """A model of the class, configuration and dtype of a model of transformers, with the weights of a checkpoint."""
    kind = type(model)
    with load_errors(name, f"{name} could not be loaded with {kind.__name__}"), quiet(), weights_ticked():
        dtype = str(model.dtype).removeprefix("torch.")
        loaded, info = _loaded(kind, name, dtype, config=model.config, trust_remote_code=False)
    _check_weights(name, loaded, info["mismatched_keys"], info["missing_keys"])
    return loaded


def _check_weights(name: str, model: Any, mismatched: Iterable[tuple[str, Any, Any]], missing: Iterable[str]) -> None:
    """Raises LoadFailed if weights have other shapes than in a model (`mismatched`), InvalidSpec if it lacks some."""
    shapes = [
        f"{key} has the shape {list(stored)}, and the configuration says {list(configured)}"
        for key, stored, configured in sorted(mismatched)
    ]
    if shapes:
        more = f" ({len(shapes)} such weights in all)" if len(shapes) > 1 else ""
        raise LoadFailed(f"the weights of {name} do not fit its configuration: {shapes[0]}{more}")
    if lacking := sorted(missing):
        raise InvalidSpec(f"{name} lacks weights that {type(model).__name__} needs: {listed(lacking, most=4)}")


def _loaded(loader: Any, name: str, dtype: str, *, trust_remote_code: bool, **more: Any) -> Any:
    """A model with its weights in a dtype, and which weights are missing or have other shapes."""
    # Mismatched sizes are an error, which names them.
    options = {"dtype": dtype, "output_loading_info": True, "ignore_mismatched_sizes": True, **more}
    return pretrained(loader.from_pretrained, name, trust_remote_code=trust_remote_code, **options)


def model_without_weights(config: Any, spec: ExportSpec | PlannedSpec, *, trust_remote_code: bool = False) -> Any:
    """The model of a configuration for the task of a spec, on the meta device: its weights have no values."""
    import torch
    import transformers

    loader = getattr(transformers, spec.call.loader or "AutoModel")
    with torch.device("meta"), quiet():
        load = getattr(loader, "from_config", None)  # a class that is no auto class has none
        return pretrained(load, config, trust_remote_code=trust_remote_code) if load else loader(config)


def load_library_model(
    library: str, name: str, *, trust_remote_code: bool = False, with_weights: bool = True, revision: str | None = None
) -> Any:
    """The model or pipeline of another library. Without weights, a model of timm has random numbers."""
    if library not in LIBRARY_LOADERS:
        raise unknown("library", library, ("transformers", *LIBRARY_LOADERS))
    try:
        load = resolve(library, LIBRARY_LOADERS, kind="library")
    except (UnknownName, ImportError, RuntimeError) as error:  # diffusers raises each of these for a missing package
        cause = first_line(error.__cause__ or error)
        raise ModelNotFound(f"{name} needs {library}, which cannot be imported: {cause}") from None
    checkpoint_folder(name, library, revision)
    with load_errors(name, f"{name} could not be loaded with {library}"), no_bars():
        if library == "timm":  # it has no code of checkpoints
            model = load(f"local-dir:{name}", pretrained=with_weights)
        else:
            at = {"revision": revision} if revision else {}
            model = pretrained(load, name, trust_remote_code=trust_remote_code, **at)
    return model.eval() if hasattr(model, "eval") else model


def _check_head(name: str, config: Any, spec: ExportSpec | PlannedSpec) -> None:
    """Every checkpoint has weights for DEFAULT_TASK; for any other task its class must have the head."""
    class_task = task_of(config)
    task = (spec.task or DEFAULT_TASK).removesuffix(WITH_PAST)
    if class_task is not None and task not in (*served_tasks(class_task), DEFAULT_TASK):
        raise InvalidSpec(
            f"{name} is a checkpoint of {config.architectures[0]}, a model for {class_task}: it has no trained weights "
            f"for {spec.task}; export it for {' or '.join(dict.fromkeys((class_task, DEFAULT_TASK)))}"
        )


HALF = MappingProxyType({"BFLOAT16": "bfloat16", "FLOAT16": "float16"})
"""Dtypes of ONNX with 16 bits -> their names in torch."""

FLOATS = frozenset((*HALF, "FLOAT", "DOUBLE", "FLOAT8E4M3FN", "FLOAT8E5M2"))


def stored_dtype(folder: Path, config: Any) -> str | None:
    """The torch dtype of 16 bits of all float weights in safetensors of a folder, not quantized; else None."""
    is_quantized = getattr(config_of(config) or config, "quantization_config", None) is not None
    others = (ADAPTER, "*.bin", "*.gguf")
    if is_quantized or not folder.is_dir() or any(any(folder.glob(pattern)) for pattern in others):
        return None
    try:
        dtypes = {entry.dtype for entry in entries(folder)} & FLOATS
    except (ModelNotFound, OSError, KeyError):
        return None
    return HALF.get(dtypes.pop()) if len(dtypes) == 1 else None


def has_rounded_tables(model: Any, missing: Iterable[str]) -> bool:
    """Whether a model has 16-bit buffers that it computed itself: they are not in its checkpoint."""
    stored = model.state_dict(keep_vars=True).keys() - {*missing}
    return any(
        buffer.is_floating_point() and buffer.dtype.itemsize == 2 and name not in stored  # noqa: PLR2004 - bytes
        for name, buffer in model.named_buffers()
    )


def declare_float32(config: Any) -> None:
    """Sets the dtype of a configuration and its inner configurations to float32, in which the model computes."""
    import torch

    config.dtype = torch.float32
    for name in getattr(config, "sub_configs", ()):
        inner = getattr(config, name, None)
        if inner is not None:
            declare_float32(inner)

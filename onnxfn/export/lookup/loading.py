"""Loads configurations and models from a folder or from the hub."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from onnxfn.export.lookup.class_tasks import served_tasks, task_of
from onnxfn.specs.errors import InvalidSpec, ModelNotFound, UnknownName, first_line, listed, unknown
from onnxfn.specs.functions import resolve
from onnxfn.specs.planned import PlannedSpec
from onnxfn.specs.spec import ExportSpec
from onnxfn.specs.tasks import DEFAULT_TASK, WITH_PAST
from onnxfn.weights.side_files import SIDE_FILES

LIBRARY_LOADERS: Mapping[str, str] = MappingProxyType(
    {
        "diffusers": "diffusers:DiffusionPipeline.from_pretrained",
        "sentence_transformers": "sentence_transformers:SentenceTransformer",
        "timm": "timm:create_model",
    }
)
"""Library -> its function from a folder to a model."""


CODE_FILES = ("*.py",)
"""Patterns of the files in a checkpoint with code of its own: a configuration with `auto_map` names them."""


def checkpoint_folder(name: str) -> Path:
    """The folder of a checkpoint: `name`, or the download of a hub repository without its weights.

    ModelNotFound if there is neither.
    """
    folder = Path(name)
    if folder.is_dir():
        return _with_config(folder)
    if folder.exists() or name.startswith((".", "/", "~")):
        raise ModelNotFound(f"{name} is not the folder of a checkpoint")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, allow_patterns=[*SIDE_FILES, *CODE_FILES]))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise ModelNotFound(f"no folder and no model on the hub has the name {name!r}: {first_line(error)}") from None


def load_configuration(folder: Path) -> Any:
    """The configuration of transformers in the folder of a checkpoint. ModelNotFound if transformers cannot read it."""
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(folder)
    except (OSError, ValueError, KeyError) as error:
        raise ModelNotFound(
            f"transformers cannot read a configuration from {folder / 'config.json'}: {first_line(error)}"
        ) from None


def load_model(name: str, config: Any, spec: ExportSpec | PlannedSpec) -> Any:
    """The model of a checkpoint for the task of a spec, in float32 for any dtype of the checkpoint.

    InvalidSpec if the checkpoint is for another task or lacks weights: these weights would be random numbers.
    """
    import torch
    import transformers

    _check_head(name, config, spec)
    loader = getattr(transformers, spec.call.loader or "AutoModel")
    try:
        model, info = loader.from_pretrained(name, dtype=torch.float32, output_loading_info=True)
    except (OSError, ValueError) as error:
        raise ModelNotFound(f"{name} could not be loaded with {spec.call.loader}: {first_line(error)}") from None
    # Checkpoints of models with a head often lack the pooler. Only an output of the pooler needs its weights.
    needs_pooler = any("pooler_output" in output.forward_path for output in spec.outputs)
    missing = sorted(key for key in info["missing_keys"] if needs_pooler or "pooler" not in key.split("."))
    if missing:
        raise InvalidSpec(f"{name} lacks weights that {type(model).__name__} needs: {listed(missing, most=4)}")
    return model


def load_library_model(library: str, name: str) -> Any:
    """The model or the pipeline that another library than transformers loads from a folder or from the hub.

    UnknownName for an unknown library. ModelNotFound if the library is not installed or cannot load the model.
    """
    if library not in LIBRARY_LOADERS:
        raise unknown("library", library, ("transformers", *LIBRARY_LOADERS))
    try:
        load = resolve(library, LIBRARY_LOADERS, kind="library")
        model = load(f"local-dir:{name}", pretrained=True) if library == "timm" else load(name)
    except (
        UnknownName,
        ImportError,
        RuntimeError,
    ) as error:  # diffusers raises each of these for a missing package
        cause = error.__cause__ if isinstance(error, UnknownName) and error.__cause__ else error
        raise ModelNotFound(f"{name} needs {library}, which cannot be imported: {first_line(cause)}") from None
    except (OSError, ValueError) as error:
        raise ModelNotFound(f"{name} could not be loaded with {library}: {first_line(error)}") from None
    return model.eval() if hasattr(model, "eval") else model


def load_gguf_model(file: Path) -> tuple[Any, Any]:
    """The model, with weights in float32, and the tokenizer of a GGUF file. ModelNotFound if they cannot be read."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    names: dict[str, Any] = {"pretrained_model_name_or_path": file.parent, "gguf_file": file.name}
    try:
        model = AutoModelForCausalLM.from_pretrained(
            **names, dtype=torch.float32, quantization_config=GgufConfig(dequantize=True)
        )
        return model, AutoTokenizer.from_pretrained(**names)
    except (OSError, ValueError, ImportError) as error:
        raise ModelNotFound(f"{file} could not be read: {first_line(error)}") from None


def _with_config(folder: Path) -> Path:
    if not (folder / "config.json").is_file():
        files = sorted(file.name for file in folder.iterdir())
        raise ModelNotFound(f"no config.json in {folder}; files: {listed(files)}; pass the folder of a checkpoint")
    return folder


def _check_head(name: str, config: Any, spec: ExportSpec | PlannedSpec) -> None:
    """Every checkpoint has weights for DEFAULT_TASK; for any other task its class must have the head."""
    class_task = task_of(config)
    task = (spec.task or DEFAULT_TASK).removesuffix(WITH_PAST)
    if class_task is not None and task not in (*served_tasks(class_task), DEFAULT_TASK):
        class_name = next(iter(config.architectures))
        raise InvalidSpec(
            f"{name} is a checkpoint of {class_name}, a model for {class_task}: it has no trained weights for "
            f"{spec.task}; export it for {class_task} or {DEFAULT_TASK}"
        )

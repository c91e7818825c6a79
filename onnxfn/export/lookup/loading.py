"""From a folder or a hub id to a model: its configuration first, its weights when all is settled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from onnxfn.export.lookup.class_tasks import served_tasks, task_of
from onnxfn.specs.errors import InvalidSpec, ModelNotFound, UnknownName, first_line, listed, unknown
from onnxfn.specs.functions import resolve
from onnxfn.specs.spec import ExportSpec
from onnxfn.specs.tasks import DEFAULT_TASK, WITH_PAST
from onnxfn.weights.layouts import SIDE_FILES


def checkpoint_folder(name: str) -> Path:
    """The folder of a checkpoint: `name`, or the hub's files without the weights; ModelNotFound if there is none."""
    folder = Path(name)
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            there = sorted(file.name for file in folder.iterdir())
            raise ModelNotFound(
                f"no config.json in {folder}; there is: {listed(there)}; name the folder of a checkpoint"
            )
        return folder
    if folder.exists() or name.startswith((".", "/", "~")):
        raise ModelNotFound(f"{name} is not the folder of a checkpoint")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, allow_patterns=list(SIDE_FILES)))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as problem:
        raise ModelNotFound(f"no folder and no model of the hub is called {name!r}: {first_line(problem)}") from None


def load_configuration(folder: Path) -> Any:
    """The configuration in a checkpoint's folder; ModelNotFound when transformers cannot read it."""
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(folder)
    except (OSError, ValueError, KeyError) as problem:
        raise ModelNotFound(
            f"{folder / 'config.json'} is no configuration that transformers knows: {first_line(problem)}"
        ) from None


def load_model(name: str, config: Any, spec: ExportSpec) -> Any:
    """The model of a checkpoint for the task of a spec, in float32 whatever the checkpoint is stored in.

    InvalidSpec when the checkpoint is for another task, so that the head would be random numbers.
    """
    import torch
    import transformers

    _check_head(name, config, spec)
    loader = getattr(transformers, spec.call.loader or "AutoModel")
    try:
        model, told = loader.from_pretrained(name, dtype=torch.float32, output_loading_info=True)
    except (OSError, ValueError) as problem:
        raise ModelNotFound(f"{name} could not be loaded with {spec.call.loader}: {first_line(problem)}") from None
    # Checkpoints of headed models often lack a pooler, which matters only where an output reads it.
    pools = any("pooler_output" in one.place for one in spec.outputs)
    missing = sorted(key for key in told["missing_keys"] if pools or "pooler" not in key.split("."))
    if missing:
        raise InvalidSpec(f"{name} lacks weights that {type(model).__name__} needs: {listed(missing, most=4)}")
    return model


def load_library_model(library: str, name: str) -> Any:
    """The model or the pipeline that another library than transformers makes of a folder, or of a name on its hub.

    UnknownName for a library that is not known; ModelNotFound when it is not installed, or finds nothing there.
    """
    if library not in LIBRARY_LOADERS:
        raise unknown("library", library, ("transformers", *LIBRARY_LOADERS))
    try:
        load = resolve(library, LIBRARY_LOADERS, kind="library")
        made = load(f"local-dir:{name}", pretrained=True) if library == "timm" else load(name)
    except (UnknownName, ImportError, RuntimeError) as problem:  # diffusers raises any of these when it is not whole
        cause = problem.__cause__ if isinstance(problem, UnknownName) and problem.__cause__ else problem
        raise ModelNotFound(
            f"{name} is to be a model of {library}, which cannot be imported: {first_line(cause)}"
        ) from None
    except (OSError, ValueError) as problem:
        raise ModelNotFound(f"{name} could not be loaded with {library}: {first_line(problem)}") from None
    return made.eval() if hasattr(made, "eval") else made


LIBRARY_LOADERS: Mapping[str, str] = MappingProxyType(
    {
        "diffusers": "diffusers:DiffusionPipeline.from_pretrained",
        "sentence_transformers": "sentence_transformers:SentenceTransformer",
        "timm": "timm:create_model",
    }
)
"""Libraries, and what of theirs makes a model of a folder."""


def load_gguf_model(file: Path) -> tuple[Any, Any]:
    """The model and the tokenizer of a GGUF file, its weights as float32; ModelNotFound when they cannot be read."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    place: dict[str, Any] = {"pretrained_model_name_or_path": file.parent, "gguf_file": file.name}
    try:
        model = AutoModelForCausalLM.from_pretrained(
            **place, dtype=torch.float32, quantization_config=GgufConfig(dequantize=True)
        )
        return model, AutoTokenizer.from_pretrained(**place)
    except (OSError, ValueError, ImportError) as problem:
        raise ModelNotFound(f"{file} could not be read: {first_line(problem)}") from None


def _check_head(name: str, config: Any, spec: ExportSpec) -> None:
    own = task_of(config)
    asked = (spec.task or DEFAULT_TASK).removesuffix(WITH_PAST)
    if own is not None and asked not in (*served_tasks(own), DEFAULT_TASK):
        called = next(iter(config.architectures))
        raise InvalidSpec(
            f"{name} holds {called}, a model for {own}: it has no trained weights for {spec.task}; "
            f"ask for {own} or {DEFAULT_TASK}"
        )

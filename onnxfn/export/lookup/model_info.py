"""Questions about models and checkpoints: which library, framework, class, task and files; and the model itself."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from onnxfn.architectures import ARCHITECTURES
from onnxfn.export.lookup.loading import checkpoint_folder, load_configuration, load_model
from onnxfn.export.lookup.lookup import checkpoint_task, spec_for, tasks_for
from onnxfn.specs.errors import InvalidSpec, ModelNotFound, UnknownName, first_line, listed, unknown
from onnxfn.specs.spec import ExportSpec
from onnxfn.specs.tasks import TASKS, canonical

LIBRARIES = ("transformers", "sentence_transformers", "timm", "diffusers")
TRANSFORMERS_LIBRARIES = ("transformers", "sentence_transformers")
"""Those whose checkpoints hold a model of transformers."""

PYTORCH = "pt"
OTHER_WEIGHTS: Mapping[str, str] = MappingProxyType(
    {"tf_model.h5": "TensorFlow", "flax_model.msgpack": "Flax", "model.ckpt.index": "TensorFlow 1"}
)
"""Weights that PyTorch does not read, and whose they are."""


def model_types_for(task: str, *, architectures: Mapping[str, ExportSpec] = ARCHITECTURES) -> tuple[str, ...]:
    """The model types that have a row for a task, by any of its names; none for one that no row knows.

    >>> "bert" in model_types_for("masked-lm"), "gpt2" in model_types_for("masked-lm")
    (True, False)
    """
    name = canonical(task)
    return tuple(one for one, spec in architectures.items() if name in {overlay.name for overlay in spec.tasks})


def supported_task(it: Any, task: str, *, architectures: Mapping[str, ExportSpec] = ARCHITECTURES) -> str:
    """The task under its own name, when this model type, configuration or model knows it; else UnknownName.

    >>> supported_task("bert", "masked-lm")
    'fill-mask'
    """
    known, name = tasks_for(it, architectures=architectures), canonical(task)
    if name not in known:
        raise unknown("task", task, known, of=it if isinstance(it, str) else type(it).__name__)
    return name


def model_class(task: str, it: Any = None, *, framework: str = PYTORCH) -> Any:
    """The class of transformers that loads a model for a task: of a model type, a configuration or a model, if given.

    UnknownName for a task that is none, or that the model does not know, and for another framework than `pt`.
    """
    import transformers

    framework_of(framework=framework)
    name = canonical(task).removesuffix("-with-past")
    if it is None and name not in TASKS:
        raise unknown("task", task, TASKS)
    told = TASKS[name] if it is None else spec_for(it, task)
    loader = told.call.loader or "AutoModel"
    if not hasattr(transformers, loader):
        raise unknown("class of transformers", loader, (), of=f"{task} of {told.name}")
    return getattr(transformers, loader)


def model_for(name: str, task: str | None = None, *, framework: str = PYTORCH) -> Any:
    """The model of a checkpoint, a folder or a name on the hub, for a task; for its own when none is said.

    In float32 and evaluation mode. ModelNotFound when there is none, or it is of another library than transformers;
    UnknownName for a task that it does not know; InvalidSpec for one that it has no trained weights for.
    """
    framework_of(name, framework=framework)
    folder = Path(name) if Path(name).is_dir() else checkpoint_folder(name)
    if (library := library_of(folder)) not in TRANSFORMERS_LIBRARIES:
        raise ModelNotFound(
            f"{name} is of {library}: load it with that, and export the model: onnxfn.export(spec, model, path)"
        )
    config = load_configuration(checkpoint_folder(str(folder)))
    return load_model(name, config, spec_for(config, task or checkpoint_task(config))).eval()


def task_at(name: str | Path) -> str | None:
    """The task of the checkpoint in a folder or on the hub, with past where its row knows it so; None if untold."""
    return checkpoint_task(load_configuration(checkpoint_folder(str(name))))


def model_files(name: str | Path) -> tuple[str, ...]:
    """The paths of the files of a folder or of a repository of the hub; ModelNotFound when there is neither."""
    folder = Path(name)
    if folder.is_dir():
        return tuple(sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()))
    from huggingface_hub import list_repo_files
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        return tuple(list_repo_files(str(name)))
    except (HfHubHTTPError, HFValidationError, OSError) as problem:
        raise ModelNotFound(
            f"no folder and no repository of the hub is called {str(name)!r}: {first_line(problem)}"
        ) from None


def library_of(it: Any) -> str:
    """Which library a model, a class, a folder or a name on the hub belongs to; ModelNotFound when nothing tells it.

    One of transformers, sentence_transformers, timm, diffusers.
    """
    if isinstance(it, (str, Path)):
        return _files_library(it, model_files(it))
    module = (it if isinstance(it, type) else type(it)).__module__.partition(".")[0]
    if module not in LIBRARIES:
        raise ModelNotFound(f"{module} is none of the libraries that are known: {listed(LIBRARIES)}")
    return module


def framework_of(it: str | Path | None = None, *, framework: str | None = None) -> str:
    """The framework of a model: `pt`, PyTorch. UnknownName for another, ModelNotFound for a folder of other weights."""
    if framework not in (None, PYTORCH):
        raise UnknownName(f"no framework {framework!r}: onnxfn exports models of PyTorch, {PYTORCH!r}, alone")
    files = model_files(it) if it is not None and Path(it).is_dir() else ()
    foreign = [OTHER_WEIGHTS[file] for file in files if file in OTHER_WEIGHTS]
    if foreign and not any(file.endswith((".safetensors", ".bin", ".gguf")) for file in files):
        raise ModelNotFound(f"{it} holds weights of {listed(foreign)} alone; transformers 5 reads those of PyTorch")
    return PYTORCH


def _files_library(name: str | Path, files: Collection[str]) -> str:
    if "model_index.json" in files:
        return "diffusers"
    if any(file.startswith("sentence_") for file in files) or "config_sentence_transformers.json" in files:
        return "sentence_transformers"
    if "config.json" not in files:
        raise ModelNotFound(
            f"nothing in {name} tells its library: no config.json, no model_index.json; there is: {listed(files)}"
        )
    told = _config(name)
    if "_diffusers_version" in told:
        return "diffusers"
    return "timm" if {"pretrained_cfg", "architecture"} & told.keys() else "transformers"


def _config(name: str | Path) -> Mapping[str, Any]:
    """What `config.json` says, of whatever library it is."""
    file = Path(name) / "config.json"
    if not file.is_file():
        from huggingface_hub import hf_hub_download

        file = Path(hf_hub_download(str(name), "config.json"))
    try:
        told: Mapping[str, Any] = json.loads(file.read_text())
    except json.JSONDecodeError as problem:
        raise InvalidSpec(f"{file} is no JSON: {problem}") from None
    return told

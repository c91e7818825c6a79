"""Facts about models and checkpoints: library, class, task, files; and the model of a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from onnxfn.export.find.heads import known_tasks
from onnxfn.export.find.lookup import checkpoint_task, has_row, loader_spec, rows_of, spec_for, tasks_for
from onnxfn.export.load.gguf import is_gguf, load_gguf
from onnxfn.export.load.loading import checkpoint_folder, load_configuration, load_model
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.errors import InvalidSpec, LoadFailed, ModelNotFound, first_line, listed, os_error_text, unknown
from onnxfn.specs.tasks.tasks import TASKS, WITH_PAST, canonical

LIBRARIES = ("transformers", "sentence_transformers", "timm", "diffusers")
TRANSFORMERS_LIBRARIES = ("transformers", "sentence_transformers")
"""The libraries whose checkpoints hold a model of transformers."""

OTHER_WEIGHTS: Mapping[str, str] = MappingProxyType(
    {"tf_model.h5": "TensorFlow", "flax_model.msgpack": "Flax", "model.ckpt.index": "TensorFlow 1"}
)
"""File of weights that PyTorch does not read -> its framework."""


def model_types_for(task: str, *, architectures: Mapping[str, ExportSpec] | None = None) -> tuple[str, ...]:
    """The model types with a row that have a task: the row has it, or transformers lists a class for it.

    Args:
        task: The name of a task, or a synonym.
        architectures: A table of rows, model type -> spec. None: ARCHITECTURES.

    Returns:
        The model types, in the order of the table. No model types for a task that none has.

    Example:
        >>> "bert" in model_types_for("masked-lm"), "gpt2" in model_types_for("masked-lm")
        (True, False)
    """
    name = canonical(task)
    return tuple(model_type for model_type, row in rows_of(architectures).items() if name in known_tasks(row))


def supported_task(model_or_type: Any, task: str, *, architectures: Mapping[str, ExportSpec] | None = None) -> str:
    """The canonical name of a task that a model has.

    Args:
        model_or_type: A model type as text, a configuration (of transformers, or a dict), or a model.
        task: The name of a task, or a synonym.
        architectures: A table of rows, model type -> spec. None: ARCHITECTURES.

    Returns:
        The canonical name of the task.

    Raises:
        UnknownName: The model does not have the task, or a model type as text has no row.

    Example:
        >>> supported_task("bert", "masked-lm")
        'fill-mask'
    """
    known, name = tasks_for(model_or_type, architectures=architectures), canonical(task)
    if name not in known:
        owner = model_or_type if isinstance(model_or_type, str) else type(model_or_type).__name__
        raise unknown("task", task, known, of=owner)
    return name


def model_class(task: str, model_or_type: Any = None) -> Any:
    """The class of transformers that loads models for a task.

    Args:
        task: The name of a task, or a synonym.
        model_or_type: A model type as text, a configuration or a model. Its row may name another class than the task:
            `AutoModelForCTC` for wav2vec2 and automatic-speech-recognition. By default the class is that of the task.

    Returns:
        The class, `transformers.AutoModelForMaskedLM` for example.

    Raises:
        UnknownName: No task has this name, or the model does not have the task.

    Example:
        >>> model_class("fill-mask").__name__
        'AutoModelForMaskedLM'
    """
    import transformers

    name = canonical(task).removesuffix(WITH_PAST)
    if model_or_type is None and name not in TASKS:
        raise unknown("task", task, TASKS)
    spec = TASKS[name] if model_or_type is None else spec_for(model_or_type, task)
    loader = spec.call.loader or "AutoModel"
    if not hasattr(transformers, loader):
        raise unknown("class of transformers", loader, (), of=f"{task} of {spec.name}")
    return getattr(transformers, loader)


def model_for(
    name: str,
    task: str | None = None,
    *,
    trust_remote_code: bool = False,
    dequantize: bool = False,
) -> Any:
    """Loads the model of a checkpoint.

    Args:
        name: A folder, a GGUF file, or the name of a repository on the hub.
        task: The name of a task, or a synonym. By default the task of the checkpoint; see `task_at`.
        trust_remote_code: Whether code of the checkpoint may run, for a model type that transformers does not know.
        dequantize: Whether a graph shall have the weights of a quantized checkpoint (GPTQ, AWQ, FP8, MXFP4,
            compressed-tensors, GGUF) as floats. Else it keeps them where MatMulNBits holds them exactly. For PyTorch
            they are floats either way; they lie in a temporary file that is deleted with the model.

    Returns:
        The model of transformers for the task, in float32 and in evaluation mode.

    Raises:
        ModelNotFound: There is no such checkpoint, or it belongs to timm or diffusers.
        LoadFailed: A file of the checkpoint is damaged, its weights do not fit its configuration, it needs a package
            that is not installed, it needs code of its own and `trust_remote_code` is False, or it is quantized, no
            graph can keep its weights, and `dequantize` is False.
        UnknownName: The model does not have the task.
        InvalidSpec: The checkpoint has no trained weights for the task.

    Example:
        >>> import tempfile
        >>> from transformers import BertConfig, BertModel
        >>> tiny = BertConfig(vocab_size=8, hidden_size=4, num_hidden_layers=1, num_attention_heads=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     BertModel(tiny).save_pretrained(folder)
        ...     type(model_for(folder)).__name__
        'BertModel'
    """
    if is_gguf(name):
        loader = "AutoModelForCausalLM" if task is None else model_class(task).__name__
        return load_gguf(Path(name), loader, dequantize=dequantize)
    folder = Path(name) if Path(name).is_dir() else checkpoint_folder(name)
    _check_weights(folder)
    if (library := library_of(folder)) not in TRANSFORMERS_LIBRARIES:
        raise ModelNotFound(
            f"{name} is a model of {library}; load it with {library} and export the model: "
            "onnxfn.export(spec, model, path)"
        )
    config = load_configuration(checkpoint_folder(str(folder)), trust_remote_code=trust_remote_code)
    spec = spec_for(config, task or checkpoint_task(config)) if has_row(config) else loader_spec(config, task)
    return load_model(name, config, spec, trust_remote_code=trust_remote_code, dequantize=dequantize).eval()


def task_at(name: str | Path) -> str | None:
    """The task of a checkpoint, by the class name in its `config.json`.

    Args:
        name: A folder, or the name of a repository on the hub.

    Returns:
        The canonical name of the task, with past if the model generates and its row has the task with past. None if
        the class name implies no task of the row.

    Raises:
        ModelNotFound: There is no such checkpoint.
        LoadFailed: transformers cannot read its configuration.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     config = '{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}'
        ...     _ = pathlib.Path(folder, "config.json").write_text(config)
        ...     task_at(folder)
        'text-generation-with-past'
    """
    return checkpoint_task(load_configuration(checkpoint_folder(str(name))))


def model_files(name: str | Path) -> tuple[str, ...]:
    """The files of a folder or of a repository on the hub.

    Args:
        name: A folder, or the name of a repository on the hub.

    Returns:
        The paths of the files, relative to the folder or the repository.

    Raises:
        ModelNotFound: There is no such folder and no such repository.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "config.json").write_text("{}")
        ...     model_files(folder)
        ('config.json',)
    """
    if not str(name):
        raise ModelNotFound("the checkpoint has no name: pass a folder, or a name on the hub")
    folder = Path(name)
    if folder.is_dir():
        return tuple(sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()))
    from huggingface_hub import list_repo_files
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        return tuple(list_repo_files(str(name)))
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        raise ModelNotFound(
            f"no folder and no repository on the hub has the name {str(name)!r}: {first_line(error)}"
        ) from None


def library_of(model_or_name: Any) -> str:
    """The library that a model, a class or a checkpoint belongs to.

    Args:
        model_or_name: A model, its class, a folder, or the name of a repository on the hub.

    Returns:
        `"transformers"`, `"sentence_transformers"`, `"timm"` or `"diffusers"`.

    Raises:
        ModelNotFound: The model is of another library, or no file of the checkpoint names a library.
        InvalidSpec: The file `config.json` is not JSON, or not an object.
        LoadFailed: The file `config.json` cannot be read.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "model_index.json").write_text("{}")
        ...     library_of(folder)
        'diffusers'
    """
    if isinstance(model_or_name, (str, Path)):
        return _files_library(model_or_name, model_files(model_or_name))
    model_type = model_or_name if isinstance(model_or_name, type) else type(model_or_name)
    library = model_type.__module__.partition(".")[0]
    if library not in LIBRARIES:
        raise ModelNotFound(f"{model_type.__name__} is a class of {library}; known libraries: {listed(LIBRARIES)}")
    return library


def _check_weights(folder: Path) -> None:
    """Raises ModelNotFound if a folder holds weights of other frameworks alone."""
    files = model_files(folder)
    others = [OTHER_WEIGHTS[file] for file in files if file in OTHER_WEIGHTS]
    if others and not any(file.endswith((".safetensors", ".bin", ".gguf")) for file in files):
        raise ModelNotFound(f"{folder} holds weights of {listed(others)} only; transformers 5 reads weights of PyTorch")


def _files_library(name: str | Path, files: Collection[str]) -> str:
    if "model_index.json" in files:
        return "diffusers"
    if any(file.startswith("sentence_") for file in files) or "config_sentence_transformers.json" in files:
        return "sentence_transformers"
    if "config.json" not in files:
        raise ModelNotFound(
            f"no file in {name} names its library: no config.json, no model_index.json; files: {listed(files)}"
        )
    config = _config(name)
    if "_diffusers_version" in config:
        return "diffusers"
    return "timm" if {"pretrained_cfg", "architecture"} & config.keys() else "transformers"


def _config(name: str | Path) -> Mapping[str, Any]:
    """The content of `config.json`, for a checkpoint of any library."""
    file = Path(name) / "config.json"
    if not file.is_file():
        from huggingface_hub import hf_hub_download

        file = Path(hf_hub_download(str(name), "config.json"))
    try:
        config: Any = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InvalidSpec(f"{file} is not JSON: {first_line(error)}") from None
    except OSError as error:
        raise LoadFailed(f"{file} cannot be read: {os_error_text(error, file)}") from error
    if not isinstance(config, dict):
        raise InvalidSpec(f"{file} holds a {type(config).__name__}, not an object")
    return config

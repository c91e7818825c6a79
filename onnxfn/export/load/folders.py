"""The folder of a checkpoint: on this machine, or downloaded from the hub without its weights."""

from pathlib import Path

from onnxfn.export.load.load_errors import CONFIG, no_bars
from onnxfn.specs.errors import InvalidSpec, LoadFailed, ModelNotFound, first_line, listed, os_error_text
from onnxfn.weights.checkpoint_files import checkpoint_files, patterns_of
from onnxfn.weights.side_files import SIDE_FILES

ADAPTER = "adapter_config.json"
"""The file of an adapter. Without the package peft, transformers would load the weights without it, and say nothing."""


def checkpoint_folder(name: str, library: str = "transformers", revision: str | None = None) -> Path:
    """The folder of a checkpoint: `name`, or a download without weights. LoadFailed if a file of it is missing."""
    folder = _folder(name, library, revision)
    checkpoint_files(folder, patterns_of(library))
    return folder


def _folder(name: str, library: str, revision: str | None) -> Path:
    if not name:
        raise ModelNotFound("the checkpoint has no name: pass the folder of a checkpoint, or a name on the hub")
    folder = Path(name)
    refuse_revision_of_files(name, revision)
    if folder.is_dir():
        return _with_config(folder) if library == "transformers" else folder
    if folder.exists() or name.startswith((".", "/", "~")):
        raise ModelNotFound(f"{name} is not the folder of a checkpoint")
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        with no_bars():  # a configuration with `auto_map` names code of the checkpoint
            return Path(snapshot_download(name, revision=revision, allow_patterns=[*SIDE_FILES, "*.py"]))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        where, why, at = "on the hub", first_line(error), f" at {revision!r}" if revision else ""
        if constants.HF_HUB_OFFLINE and isinstance(error, LocalEntryNotFoundError):
            where, why = "in the cache of the hub", "the hub was not asked, as HF_HUB_OFFLINE is set"
        raise ModelNotFound(f"no folder and no model {where} has the name {name!r}{at}: {why}") from None


def refuse_revision_of_files(name: str, revision: str | None) -> None:
    """Raises InvalidSpec for a revision of what is on this machine: only names on the hub have some."""
    if revision is not None and Path(name).exists():
        raise InvalidSpec(f"{name} is on this machine and has no revision {revision!r}; pass its name on the hub")


def _with_config(folder: Path) -> Path:
    try:
        files = sorted(file.name for file in folder.iterdir())
    except OSError as error:
        raise LoadFailed(f"{folder} cannot be read: {os_error_text(error, folder)}") from error
    if CONFIG not in files and ADAPTER in files:
        raise ModelNotFound(f"{folder} is an adapter, not a model; export its model, with --adapter {folder}")
    if CONFIG not in files:
        change = "add --library diffusers" if "model_index.json" in files else "pass the folder of a checkpoint"
        raise ModelNotFound(f"no config.json in {folder}; files: {listed(files)}; {change}")
    return folder

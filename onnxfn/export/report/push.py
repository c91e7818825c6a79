"""Uploads the folder of an export to the hub, by one call of the hub's client."""

import glob
from pathlib import Path

from onnxfn.export.report.report_file import REPORT_FILE, recorded, report_folders
from onnxfn.export.report.verify import Verification, verify
from onnxfn.specs.errors import InvalidSpec
from onnxfn.weights.checkpoint_files import names_in
from onnxfn.weights.names import name_fault
from onnxfn.weights.side_files import SIDE_FILES, side_files

PIPELINE_INDEX = "model_index.json"


def verified(folder: Path) -> Verification:
    """The result of `verify` for a folder. InvalidSpec if a file differs from the report: then nothing is uploaded."""
    verification = verify(folder)
    if not verification.passed:
        fault = next(iter(verification.faults), "it has no report.json")
        raise InvalidSpec(f"{folder} is not uploaded: {fault}")
    return verification


def uploaded_files(folder: Path) -> list[Path]:
    """The files listed by the reports of an export, the reports, and the side files of a pipeline."""
    folders = report_folders(folder)
    reports = {each: report for each in folders if (report := recorded(each)) is not None}
    listed = [each / name for each, report in reports.items() for name in (*report.files, REPORT_FILE)]
    # A pipeline has no report of its own: its side files lie in its folder, and in those that its index names.
    named = [folder / name for name in names_in(folder / PIPELINE_INDEX) if name_fault(name, folder) is None]
    others = [] if folder in folders else [folder, *named]
    patterns = (*SIDE_FILES, PIPELINE_INDEX, "scheduler_config.json")
    return sorted({*listed, *(file for each in others for file in side_files(each, patterns))})


def uploaded(folder: Path, repository: str, *, private: bool = False) -> str:
    """Uploads an export, and nothing else in its folder, to a repository on the hub; returns the commit's address."""
    from huggingface_hub import HfApi

    api = HfApi()
    api.create_repo(repository, private=private, exist_ok=True)
    names = [file.relative_to(folder).as_posix() for file in uploaded_files(folder)]
    commit = api.upload_folder(
        folder_path=folder,
        repo_id=repository,
        commit_message="ONNX files, by onnxfn",
        allow_patterns=[glob.escape(name) for name in names],
    )
    return str(commit.commit_url)

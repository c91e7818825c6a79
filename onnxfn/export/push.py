"""Uploads the folder of an export to the hub, by one call of the hub's client."""

from __future__ import annotations

from pathlib import Path

from onnxfn.export.verify import Verification, verify
from onnxfn.specs.errors import InvalidSpec


def verified(folder: Path) -> Verification:
    """What `verify` finds of a folder. InvalidSpec if a file differs from the report: such a folder is not uploaded."""
    verification = verify(folder)
    if not verification.passed:
        fault = next(iter(verification.faults), "it has no report.json")
        raise InvalidSpec(f"{folder} is not as its report.json says, and is not uploaded: {fault}")
    return verification


def uploaded(folder: Path, repository: str, *, private: bool = False) -> str:
    """Uploads a folder to a repository on the hub, which is created if it does not exist; returns the commit's address.

    The client of the hub raises its own errors: no token, no network, no right to write.
    """
    from huggingface_hub import HfApi

    api = HfApi()
    api.create_repo(repository, private=private, exist_ok=True)
    commit = api.upload_folder(folder_path=folder, repo_id=repository, commit_message="ONNX files, by onnxfn")
    return str(commit.commit_url)

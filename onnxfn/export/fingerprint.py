"""`fingerprint`: a digest of a model or of a checkpoint, for a cache of exports."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from onnxfn.export.recipes import recipe_key
from onnxfn.graphs import fingerprints
from onnxfn.specs.errors import ModelNotFound
from onnxfn.weights.digests import sha256_of


def fingerprint(model_or_folder: Any, *, weights: bool = False) -> str | None:
    """The SHA-256 of everything in a model or checkpoint that graphs depend on; a template cache finds graphs by it.

    It covers the configuration, the modules, the shapes and dtypes of parameters, and the versions of onnxfn, torch,
    transformers and the other packages that build graphs or define the model. A model and its checkpoint have different
    fingerprints: one is computed from the modules, the other from the files.

    Args:
        model_or_folder: A model, or the folder of a checkpoint.
        weights: Whether it covers the values of the weights, too. A cache of exported files needs them, a cache of
            graphs does not.

    Returns:
        64 hexadecimal digits, or None if what the graphs depend on cannot be known. That is the case for a model with
        a class or a function of the user, and for a checkpoint with code of its own, with adapters, quantized, or not
        completely in safetensors files.

    Raises:
        ModelNotFound: there is no such folder.

    >>> import torch
    >>> module = torch.nn.Linear(4, 2)
    >>> same_size = torch.nn.Linear(4, 2)
    >>> fingerprint(module) == fingerprint(same_size)
    True
    >>> fingerprint(module, weights=True) == fingerprint(same_size, weights=True)
    False
    """
    if not isinstance(model_or_folder, (str, Path)):
        of_graph = fingerprints.fingerprint(model_or_folder)
        return _joined(of_graph, [fingerprints.weights_digest(model_or_folder)] if weights and of_graph else [])
    folder = Path(model_or_folder)
    if not folder.is_dir():
        raise ModelNotFound(f"no folder {str(folder)!r}; a fingerprint is that of a model or of a checkpoint's folder")
    files = sorted(folder.glob("*.safetensors")) if weights else []
    return _joined(recipe_key(folder, {}), [sha256_of(file) for file in files])


def _joined(digest: str | None, others: list[str]) -> str | None:
    """The digest itself, or that of it and others; None stays None."""
    if digest is None or not others:
        return digest
    return hashlib.sha256("\n".join((digest, *others)).encode()).hexdigest()

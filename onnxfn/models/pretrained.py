"""The one call of what loads from a checkpoint: its code runs only if the caller trusts it."""

from collections.abc import Callable
from typing import Any


def pretrained(load: Callable[..., Any], source: Any, *, trust_remote_code: bool, **options: Any) -> Any:
    """What a function of transformers, diffusers or sentence-transformers loads; else it asks whether code may run."""
    return load(source, trust_remote_code=trust_remote_code, **options)

"""Where a model has the method that computes the features of images or sounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def feature_method(model: Any, name: str) -> Callable[..., Any] | None:
    """The method of a model, or of the model inside it, that computes features; None if it has none.

    The method of the model inside names its arguments where that of the model hands all of them on.
    """
    inside = getattr(model, getattr(model, "base_model_prefix", "") or "model", None)
    methods = (getattr(owner, name, None) for owner in (getattr(model, "model", None), inside, model))
    return next((method for method in methods if method is not None), None)

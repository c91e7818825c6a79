"""Tiny sizes: models that see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SPECIAL: Mapping[str, Mapping[str, Any]] = {
    "vit": {"image_size": 24, "patch_size": 8, "encoder_stride": 8},
}

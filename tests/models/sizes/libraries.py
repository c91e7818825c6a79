"""Tiny sizes: models of timm, sentence-transformers and diffusers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SPECIAL: Mapping[str, Mapping[str, Any]] = {}

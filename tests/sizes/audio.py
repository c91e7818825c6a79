"""Tiny sizes: models that hear and speak."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SPECIAL: Mapping[str, Mapping[str, Any]] = {}

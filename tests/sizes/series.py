"""Tiny sizes: models of time series and decisions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SPECIAL: Mapping[str, Mapping[str, Any]] = {}

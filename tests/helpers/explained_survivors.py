"""Faults that change an answer and that the check does not find, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from verdicts import Fault

EXPLAINED: Mapping[Fault, str] = MappingProxyType({})
"""From a fault to why the check passes it."""

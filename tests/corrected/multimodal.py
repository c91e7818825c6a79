"""Where a plan differs from Optimum's on purpose: models that read and see."""

from __future__ import annotations

from corrected.records import Added, Correction, Excess, NeverMade, Resized

CORRECTIONS: tuple[Correction, ...] = ()
NEVER_MADE: tuple[NeverMade, ...] = ()
INPUTS_ADDED: tuple[Added, ...] = ()
TENSORS_DROPPED: tuple[Excess, ...] = ()
SIZES_CORRECTED: tuple[Resized, ...] = ()

"""Sizes of a trace: as products, bounds and formulas, and shapes of outputs found without torch."""

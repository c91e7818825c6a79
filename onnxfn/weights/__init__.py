"""Weights: where they are stored, how they are converted, how they are written."""

"""Specs that are derived from runs of a model."""

"""Exports: from a model to a checked folder."""

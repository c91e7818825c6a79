"""Graphs of equal models, kept on disk."""

"""Layers that repeat: found in a model, traced once, written again."""

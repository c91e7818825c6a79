"""Passes that quantize weights, and what they need to know of a graph."""

"""Passes that quantize weights, and the facts of a graph that they need."""

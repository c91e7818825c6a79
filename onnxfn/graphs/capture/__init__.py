"""Capture: a model and a part of a plan -> a graph as torch's exporter gives it."""

"""Graphs: a model and a part of a plan -> a finished ONNX graph."""

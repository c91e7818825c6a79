"""Nodes of ONNX graphs, their inputs, shapes and constants."""

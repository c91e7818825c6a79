"""Nodes of ONNX graphs: what they read, their shapes and constants."""

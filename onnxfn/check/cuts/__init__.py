"""Sections of ONNX graphs: cut at few values, and run."""

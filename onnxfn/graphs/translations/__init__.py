"""Operators of torch as operators of ONNX."""

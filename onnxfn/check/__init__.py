"""Check: the ONNX files of an export against PyTorch."""

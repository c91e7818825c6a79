"""Export PyTorch models to ONNX: specs are values, edits are functions, every export is checked."""

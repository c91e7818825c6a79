"""ONNX Runtime for users: sessions, feeds, prompts and texts."""

"""The first difference of a file from PyTorch."""

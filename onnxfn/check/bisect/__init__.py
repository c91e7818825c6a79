"""Where a file first differs from PyTorch."""

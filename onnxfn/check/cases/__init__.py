"""Cases of the check: their sizes, and PyTorch's outputs for them."""

"""Whether an output agrees with PyTorch's."""

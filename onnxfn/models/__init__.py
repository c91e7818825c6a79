"""A PyTorch model as a function: of tensors, in a dtype, of one part, while functions of it are replaced."""

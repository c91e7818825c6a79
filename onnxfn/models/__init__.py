"""A PyTorch model as a function of tensors: in a dtype, for one part, with functions replaced."""

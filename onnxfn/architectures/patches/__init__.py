"""Functions that stand in for a model's own while it is traced: a file an architecture; rows name them by `patched`."""

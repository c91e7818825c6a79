"""Functions that stand in for a model's own while it is traced: one file an architecture, named in rows by `patched`."""

"""Functions that stand in for a model's own while it is traced, one file for each mechanism: see `patch_table.py`."""

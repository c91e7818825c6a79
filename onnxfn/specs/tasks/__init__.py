"""Tasks of a spec, and the edits that need them."""

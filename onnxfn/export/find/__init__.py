"""The spec of a model, and what is known about it."""

"""Lookup: which spec belongs to a model, a configuration or a model type."""

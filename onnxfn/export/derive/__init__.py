"""Specs that are derived from a model which runs."""

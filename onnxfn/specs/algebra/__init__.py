"""Specs, and the pieces that they are combined from."""

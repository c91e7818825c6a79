"""Specs, and what is combined to make them."""

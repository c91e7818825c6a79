"""Specs: records, the functions that combine them, and the plan."""

"""Specs and reports that are compared and stored."""

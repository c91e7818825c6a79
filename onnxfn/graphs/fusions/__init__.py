"""Passes that find one operator where a graph has its parts."""

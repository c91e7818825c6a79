"""Passes: graph -> graph, each with a docstring that says what holds before and after."""

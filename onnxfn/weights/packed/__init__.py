"""Weights that a checkpoint stores in few bits."""

"""Multimodal models: all of their files, one after the other."""

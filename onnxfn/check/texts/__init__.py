"""Texts that a decoder writes token by token."""

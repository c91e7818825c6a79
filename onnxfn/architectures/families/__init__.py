"""Families: what models of one kind share. A row of a table composes families with what differs."""

"""Families: common facts of models of one kind. A row of a table composes families with its own facts."""

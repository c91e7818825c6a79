"""Edits: pure functions ExportSpec -> ExportSpec."""

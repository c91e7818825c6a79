"""The reports of an export, and how they print."""

"""The folder of an export, replaced as a whole."""

"""Models that see or hear: all of their files, one after the other."""

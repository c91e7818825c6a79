"""What a user runs: sessions, feeds, prompts and texts."""

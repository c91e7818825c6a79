"""Weights: where they lie, how they are converted and streamed, where they go."""

"""The spec of a model, and the model of a checkpoint."""

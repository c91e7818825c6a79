"""Functions that parts of a plan run in place of the model: each takes the model and the inputs of its part."""

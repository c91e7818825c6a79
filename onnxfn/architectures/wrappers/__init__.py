"""The modules that parts of a plan run in place of the model: each function takes the model and returns a module."""

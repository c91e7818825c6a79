"""What a part of a plan runs in place of the model: each function takes the model and returns a module."""

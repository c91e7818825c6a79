"""What parts of a model run that no module of it is: each takes the model and gives a module."""

"""Export: the pipeline, the lookup of specs, recipes, the command line."""

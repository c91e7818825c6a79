"""Export: the pipeline, the lookup of specs, the command line."""

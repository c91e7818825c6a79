"""Private names of other packages: each package has one file, and no other file of onnxfn writes such a name."""

"""Specs that rows are composed of: models of one kind have these inputs and outputs."""

from onnxfn.specs.algebra.public_names import public_names

__all__, __getattr__, __dir__ = public_names(__name__)

"""Edits: functions of a spec that return a changed spec."""

from onnxfn.specs.algebra.public_names import public_names

__all__, __getattr__, __dir__ = public_names(__name__)

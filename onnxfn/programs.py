"""Programs of several modules: watched while they run, exported by parts, and run on these."""

from typing import TYPE_CHECKING

from onnxfn.specs.algebra.public_names import public_names

if TYPE_CHECKING:
    from onnxfn import export_pipeline as export_pipeline
    from onnxfn.export.derive.watched import Watched as Watched
    from onnxfn.export.derive.watched import watched as watched
    from onnxfn.export.run.assembled import assembled as assembled
    from onnxfn.export.run.program_parts import pipeline_parts as pipeline_parts

__all__, __getattr__, __dir__ = public_names(__name__)

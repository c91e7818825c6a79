"""The errors of onnxfn."""

from typing import TYPE_CHECKING

from onnxfn.specs.algebra.public_names import public_names

if TYPE_CHECKING:
    from onnxfn import CheckFailed as CheckFailed
    from onnxfn import InvalidSpec as InvalidSpec
    from onnxfn import OnnxfnError as OnnxfnError
    from onnxfn.specs.errors import CaptureFailed as CaptureFailed
    from onnxfn.specs.errors import FixedSizes as FixedSizes
    from onnxfn.specs.errors import LoadFailed as LoadFailed
    from onnxfn.specs.errors import MissingValue as MissingValue
    from onnxfn.specs.errors import ModelNotFound as ModelNotFound
    from onnxfn.specs.errors import OutputExists as OutputExists
    from onnxfn.specs.errors import TimedOut as TimedOut
    from onnxfn.specs.errors import UnknownName as UnknownName
    from onnxfn.specs.errors import WriteFailed as WriteFailed

__all__, __getattr__, __dir__ = public_names(__name__)

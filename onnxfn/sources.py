"""Sources of values in a configuration."""

from typing import TYPE_CHECKING

from onnxfn.specs.algebra.public_names import public_names

if TYPE_CHECKING:
    from onnxfn.specs.algebra.compose import constant as constant
    from onnxfn.specs.algebra.compose import either as either
    from onnxfn.specs.algebra.compose import from_config as from_config
    from onnxfn.specs.algebra.compose import quotient as quotient

__all__, __getattr__, __dir__ = public_names(__name__)

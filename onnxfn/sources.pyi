from onnxfn.specs.algebra.compose import constant as constant
from onnxfn.specs.algebra.compose import either as either
from onnxfn.specs.algebra.compose import from_config as from_config
from onnxfn.specs.algebra.compose import quotient as quotient

"""Quantized files: dtypes, rules that select weights, and floors."""

from typing import TYPE_CHECKING

from onnxfn.specs.algebra.public_names import public_names

if TYPE_CHECKING:
    from onnxfn import Floors as Floors
    from onnxfn import quantize as quantize
    from onnxfn.specs.algebra.quantized_dtypes import QUANTIZED_DTYPES as QUANTIZED_DTYPES
    from onnxfn.specs.algebra.quantized_dtypes import QuantizedDtype as QuantizedDtype
    from onnxfn.specs.quantization import WeightRule as WeightRule
    from onnxfn.specs.quantization import Within as Within
    from onnxfn.specs.quantization import kl as kl
    from onnxfn.specs.results.measurements import Measurement as Measurement
    from onnxfn.specs.stored.reports import NotQuantized as NotQuantized

__all__, __getattr__, __dir__ = public_names(__name__)

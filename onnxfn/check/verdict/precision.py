"""The rule by which an output in a float dtype agrees with PyTorch, and all its numbers.

Three arrays belong to an output in a case: `actual` by ONNX Runtime, `expected` by PyTorch in the dtype of the export,
and `exact` by PyTorch in float64, from the same weights before any conversion. The error of a graph is the norm of
`actual - exact`, PyTorch's own error that of `expected - exact`. A graph agrees if, in both of two norms,

    error <= factor * own_error + floor

The norms are the root mean square of the elements, which a fault in many elements raises, and the peak, which a fault
in few elements raises. Both are relative to the scale of the output: 1 is an error as large as the output.

PyTorch's own error is too small a measure where a model computes in float32 whatever its dtype is, as the embeddings of
timesteps do: then `expected` and `exact` have the same rounding errors there. So an output that does not agree is
compared once more. The own error is then at least the change of `exact` when each number of the inputs is moved by one
unit roundoff: no program can be expected to be more exact than its inputs. In an output of few elements PyTorch's own
error may be small by luck: there the largest of several inputs counts. At last the largest own error of
all cases counts. An own error that is too large for rounding allows nothing: a model that chooses by its values may
choose otherwise in float64, which is then no reference.

PyTorch in float64 costs time and memory. It does not run if `norm(actual - expected) <= agreement`, which is at least
the floor. Such a difference is rounding in most models, and a graph with a smaller one is not looked at more closely.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from attrs import frozen

PEAK = 8.0
"""The floor of the peak, as a multiple of that of the root mean square.

The largest of a million normally distributed numbers is 5 times their root mean square; MiniLM's
are up to 7 times.
"""

OUTLIER = PEAK * PEAK
"""The largest peak of PyTorch's own error that is rounding, as a multiple of the largest such root mean square.

Few elements may amplify rounding. A pixel of a mask that PyTorch itself decides otherwise is further away.
"""


@frozen
class Precision:
    """What a float dtype can do, and what is allowed in it.

    Attributes:
        unit_roundoff: The largest relative error of rounding one number to the dtype.
        smallest: The smallest scale of an output. float32: a unit roundoff of it is the smallest normal number, and
            smaller numbers are zero in some programs and not in others. float16: the smallest normal number.
        largest_ordinary: Larger numbers stand for minus infinity (masked scores) and do not count for the scale.
        factor: How many times PyTorch's own error the error of a graph may be.
        agreement: The difference from PyTorch that is always allowed, in unit roundoffs.
        floor: The error that is allowed beside PyTorch's own where the difference is larger, in unit roundoffs.
        by_scale: The difference from PyTorch that is allowed where no exact reference can run, in unit roundoffs. If
            PyTorch's own error is `factor` times that, the model computes other values in float64, which is then no
            reference.
        wider: The dtypes that are exact in comparison, the best first.
    """

    unit_roundoff: float
    smallest: float
    largest_ordinary: float
    factor: float
    agreement: float
    floor: float
    by_scale: float
    wider: tuple[str, ...]


# Measured on tiny models of 13 architectures, on MiniLM and on SmolLM2, in all cases of the check (root mean squares):
# float32: PyTorch's own error is 0.5 to 30 unit roundoffs, and the error of a graph 0.3 to 1.7 times that. ONNX
#   Runtime has its own formulas for layer norms, exp, erf and tanh. 32 unit roundoffs settle MiniLM without float64.
#   A changed epsilon in one norm of BERT gives 33 to 43; PyTorch's own error is 4 to 7 there, so 8 is the floor.
# float16: PyTorch rounds after each operator, ONNX Runtime computes many operators in float32: 0.4 to 1.5 times. Each
#   graph rounds its output, by up to 1 unit roundoff. Noise of 1 % in one matrix makes 2 to 16 times.
# bfloat16: ONNX Runtime's CPU has nearly no kernels. Rounding follows the same rule as in float16.
# float64: PyTorch has no wider dtype, so outputs are compared with PyTorch's own, by scale. The numbers are float32's.
PRECISIONS: Mapping[str, Precision] = MappingProxyType(
    {
        "float32": Precision(2.0**-24, 2.0**-102, 1e30, 4.0, 32.0, 8.0, 2.0**10, ("float64",)),
        "float16": Precision(2.0**-11, 2.0**-14, 3e4, 2.0, 0.5, 0.5, 2.0**5, ("float64", "float32")),
        "bfloat16": Precision(2.0**-8, 2.0**-118, 1e30, 2.0, 0.5, 0.5, 2.0**4, ("float64", "float32")),
        "float64": Precision(2.0**-53, 2.0**-969, 1e300, 4.0, 32.0, 8.0, 2.0**10, ()),
    }
)
"""From a float dtype to its precision. No row of a model has numbers of its own."""


def precision_of(dtype: str | None) -> Precision:
    """The precision of a planned float dtype; None is float32."""
    return PRECISIONS[dtype or "float32"]

"""The memory of a check by sections: a pure function of its cases, the layers, and what ONNX Runtime converts."""

from __future__ import annotations

from math import prod
from typing import Any

from attrs import frozen

from onnxfn.check.cases import check_cases, longest_text
from onnxfn.check.sections.columns import LARGE
from onnxfn.check.sections.layer_chains import layer_paths
from onnxfn.export.weight_sizes import last_product
from onnxfn.specs.axes import shape
from onnxfn.specs.config_values import config_of
from onnxfn.specs.dummies import known_sizes
from onnxfn.specs.planned import Part, PlannedSpec

OUTPUT_BYTES, COMPARED_BYTES = 8, 64
"""Bytes for each number of an output: in all cases, of PyTorch's and of ONNX Runtime's; in the case that is compared,
of the copies in float64.

With the imports, 1.32 GB in float16 and 1.49 GB in float32 were measured for two layers of 60 million weights and a
tied head of 262 million, where this module says 1.72 and 1.52.
"""

HIDDEN_BYTES = 12
"""Bytes for each number of a layer's hidden states, in all cases: also in a wider dtype, and those of the cache."""

HALF_COPIES, QUANTIZED_COPIES = 3, 1
"""How many copies in float32 of its largest weight a section has at a time: of 16-bit weights, which a Cast converts
before each product; of codes in blocks, which the product itself converts. 0.26 GB was measured for 65 million codes.
"""

FLOAT_BYTES = 4
MATRIX_RANK = 2


@frozen
class SectionSizes:
    """What the memory of a check by sections follows from.

    Attributes:
        tokens: The number of tokens of each case, with their past.
        layers: The number of layers.
        width: The size of the hidden states of a token.
        outputs: The numbers that the last product has for a token, such as the size of the vocabulary.
        converted: The elements of all weights that ONNX Runtime has converted to float32 at a time.
    """

    tokens: tuple[int, ...]
    layers: int
    width: int
    outputs: int
    converted: int


def section_memory(sizes: SectionSizes) -> int:
    """The bytes of anonymous memory of a check by sections, above that of the imports.

    >>> section_memory(SectionSizes(tokens=(10, 30), layers=2, width=8, outputs=100, converted=1000))
    235680
    """
    outputs = sizes.outputs * (OUTPUT_BYTES * sum(sizes.tokens) + COMPARED_BYTES * max(sizes.tokens))
    hidden = HIDDEN_BYTES * sum(sizes.tokens) * sizes.layers * sizes.width
    return outputs + hidden + FLOAT_BYTES * sizes.converted


def section_sizes(part: Part, model: Any) -> SectionSizes:
    """The sizes of the check of a part of a plan. InvalidSpec if the layers of the model are no list."""
    cases = check_cases(part, longest=longest_text(model))
    return SectionSizes(
        tokens=tuple(_tokens(case.spec) for case in cases),
        layers=len(layer_paths(model, {name for name, _ in model.named_parameters()})),
        width=config_of(model).get_text_config().hidden_size,
        outputs=len(last_product(model).weight),
        converted=_converted(part, model),
    )


def _tokens(spec: PlannedSpec) -> int:
    """The elements of the largest input of integers, such as the mask, which has the past, too; at least 1."""
    sizes = known_sizes(spec, {})
    integers = (each for each in spec.inputs if each.kind == "int" and each.layer is None)
    return max((prod(shape(each.axes, sizes)) for each in integers), default=1)


def _converted(part: Part, model: Any) -> int:
    """The elements of weights that are converted to float32 at a time. Large 16-bit matrices are in blocks."""
    weights = [*model.parameters()]
    if part.spec.target.quantization:
        return QUANTIZED_COPIES * max(int(weight.numel()) for weight in weights)
    if part.spec.target.float_dtype == "float32":
        return 0
    return HALF_COPIES * max((int(weight.numel()) for weight in weights if not _is_large_matrix(weight)), default=0)


def _is_large_matrix(weight: Any) -> bool:
    return bool(weight.ndim == MATRIX_RANK and weight.numel() >= LARGE)

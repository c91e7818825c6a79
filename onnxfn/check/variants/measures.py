"""Accuracy measures of the outputs of quantized and 16-bit files, the measures of each output, and their floors.

A measure compares the arrays of the file with those of PyTorch in float32 with the weights of the model: it says what
a user loses by quantization. It is a number that readers know, and it has a floor.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from attrs import frozen

from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.algebra.planned import PlannedSpec

Outputs = Mapping[str, Array]
"""From the names of the outputs of a part to their arrays; padding is left out."""

BOXES = "pred_boxes"
"""The output of detectors that holds boxes, as centers and sizes."""

ELEMENTS_AT_ONCE = 1 << 20
"""The elements that are converted to float64 at once."""

LARGEST_ORDINARY = 3e4
"""Larger numbers stand for minus infinity, as in masked scores: float16 has no numbers above 65504."""


@frozen
class Measure:
    """A measure of an output: `values` of positions, `whole` of all cases, `least` if lower is better, and floors."""

    values: Callable[[str, Outputs, Outputs], Array]
    floors: Mapping[str, float]
    whole: Callable[[Array], Any]
    least: bool = False

    def passed(self, value: float, floor: float | None) -> bool:
        """Whether a value reaches a floor; NaN reaches none."""
        return floor is None or (value <= floor if self.least else value >= floor)


def _rows(array: Array) -> Array:
    """The vectors along the last axis, `[positions, width]`."""
    return array.reshape(-1, array.shape[-1]) if array.ndim > 1 else array.reshape(1, -1)


def agreement(output: str, actual: Outputs, expected: Outputs) -> Array:
    """Whether each position has the same likeliest token or class; of integers, whether each is equal."""
    left, right = actual[output], expected[output]
    if right.dtype.kind != "f":
        return np.asarray(left == right, np.float64).reshape(-1)
    if BOXES in expected:
        values = []  # of PyTorch's best boxes, and of the boxes of the file that overlap them most
        for image, (overlaps, best) in enumerate(_best_boxes(BOXES, actual, expected)):
            values.append(left[image][overlaps.argmax(-1)].argmax(-1) == right[image][best].argmax(-1))
        return np.concatenate(values).astype(np.float64)
    return np.asarray(_rows(left).argmax(-1) == _rows(right).argmax(-1), np.float64)


def kl(output: str, actual: Outputs, expected: Outputs) -> Array:
    """The KL divergence of the file's distribution from PyTorch's, at each position, in nats."""
    left, right = _rows(actual[output]), _rows(expected[output])
    blocks = [slice(start, start + 64) for start in range(0, len(right), 64)]  # few at once: a vocabulary is large
    return np.concatenate([_kl_of_rows(left[block], right[block]) for block in blocks] or [np.zeros(0)])


def _kl_of_rows(actual: Array, expected: Array) -> Array:
    left, right = _log_probabilities(actual), _log_probabilities(expected)
    probabilities = np.exp(right)
    # A token that PyTorch excludes (minus infinity) has no part in the sum.
    excluded = probabilities == 0
    terms = probabilities * (np.where(excluded, 0.0, right) - np.where(excluded, 0.0, left))
    return np.asarray(np.maximum(terms.sum(-1), 0.0))


def _log_probabilities(logits: Array) -> Array:
    values = logits.astype(np.float64)
    values = values - values.max(-1, keepdims=True)
    return np.asarray(values - np.log(np.exp(values).sum(-1, keepdims=True)))


def cosine(output: str, actual: Outputs, expected: Outputs) -> Array:
    """The cosine of an output and PyTorch's, one value; infinite elements must be the same, and do not count."""
    return np.array([cosine_of(actual[output], expected[output])])


def cosine_of(actual: Array, expected: Array) -> float:
    """The cosine of two arrays as vectors; 1 for two zeros, NaN where other elements are infinite or NaN."""
    left, right = actual.ravel(), expected.ravel()
    starts = range(0, max(left.size, 1), ELEMENTS_AT_ONCE)
    blocks = [_products(*(array[start : start + ELEMENTS_AT_ONCE] for array in (left, right))) for start in starts]
    product, left_square, right_square = (sum(column) for column in zip(*blocks, strict=True))
    norms = (left_square * right_square) ** 0.5
    return product / norms if norms else float(left_square == right_square)


def _products(left: Array, right: Array) -> tuple[float, float, float]:
    """The inner products of two vectors, of the first and of the second with itself; NaN where they are not finite."""
    left, right = left.astype(np.float64), right.astype(np.float64)
    finite = np.abs(right) < LARGEST_ORDINARY
    if not np.array_equal(np.abs(left) < LARGEST_ORDINARY, finite):
        return (float("nan"),) * 3
    left, right = left[finite], right[finite]
    return float(left @ right), float(left @ left), float(right @ right)


def iou(output: str, actual: Outputs, expected: Outputs) -> Array:
    """The overlap of each of PyTorch's best boxes, by `logits`, with the box of the file that overlaps most."""
    return np.concatenate([overlaps.max(-1) for overlaps, *_ in _best_boxes(output, actual, expected)])


def _best_boxes(output: str, actual: Outputs, expected: Outputs) -> list[tuple[Array, Array]]:
    """For each image the overlaps `[best of PyTorch, boxes of the file]`, and the indices of the best."""
    scores = expected["logits"].max(-1) if "logits" in expected else np.zeros(expected[output].shape[:2])
    best = np.argsort(-scores, axis=-1, kind="stable")[:, :10]
    return [
        (_overlaps(_corners(boxes[index]), _corners(of_file)), index)
        for boxes, of_file, index in zip(expected[output], actual[output], best, strict=True)
    ]


def _corners(boxes: Array) -> Array:
    """From centers and sizes to the lower and upper corners: `[..., 4]`."""
    center, size = boxes[..., :2].astype(np.float64), boxes[..., 2:4].astype(np.float64)
    return np.concatenate([center - size / 2, center + size / 2], axis=-1)


def _overlaps(left: Array, right: Array) -> Array:
    """The intersection over union of each pair of boxes, `[left, right]`."""
    low = np.maximum(left[:, None, :2], right[None, :, :2])
    shared = np.prod(np.maximum(np.minimum(left[:, None, 2:], right[None, :, 2:]) - low, 0.0), axis=-1)
    areas = [np.prod(boxes[:, 2:] - boxes[:, :2], axis=-1) for boxes in (left, right)]
    union = areas[0][:, None] + areas[1][None] - shared
    return np.asarray(np.where(union > 0, shared / np.where(union > 0, union, 1.0), 1.0))


HALF, EIGHT_BITS, DYNAMIC, FOUR_BITS, STATIC = "16 bits", "8 bits", "8 bits, dynamic", "4 bits", "8 bits, static"
"""The kinds of variants that have floors. Of a dynamic or static one the activations are quantized, too."""


def _floors(*, half: float | None, eight: float, dynamic: float, four: float, static: float) -> Mapping[str, float]:
    floors = {HALF: half, EIGHT_BITS: eight, DYNAMIC: dynamic, FOUR_BITS: four, STATIC: static}
    return MappingProxyType({kind: floor for kind, floor in floors.items() if floor is not None})


# Measured on 300 tokens of the text, with files of onnxfn; the ranges have those of ONNX Runtime's own quantizers, too
# (blocks of 32, symmetric). onnxfn also quantizes the tables of embeddings.
#                     float16    8 bits    8 bits, dynamic   4 bits
# MiniLM   cosine     0.9999994  0.99987   0.935 to 0.9903   0.966 to 0.971
#          cases                 0.9998    0.905 to 0.985    0.937 to 0.954
#          weights               0.99998   0.930 to 0.9999   0.988 to 0.9953
# SmolLM2  agreement  1.0        0.987     0.53 to 0.62      0.59 to 0.65
#          kl         0.000012   0.0012    0.49 to 0.60      0.32 to 0.42
#          cases                 0.9988    0.71 to 0.77      0.69 to 0.76
#          weights               0.99998   0.9933 to 0.9999  0.9939 to 0.9946
# Static 8 bits: MiniLM has a cosine of 0.981, and weights of 0.9998. Trained on pictures of 64 x 64 pixels, DeiT-tiny
# has an agreement of 0.996 over 500 of them and a cosine of 0.9999, MobileNetV2 1.0 0.984 and 0.9993, ResNet-50 0.982
# and 0.998; a ResNet-50 that had learnt little had 0.875 on other pictures. Text decoders are not measured.
# A file whose layers are wrong has an agreement near 0 and a KL above 3. Larger models lose less than SmolLM2.
MEASURES: Mapping[str, Measure] = MappingProxyType(
    {
        # Where many tokens are nearly as likely, as in a random model, a useful file agrees in half: the KL decides.
        "agreement": Measure(agreement, _floors(half=0.97, eight=0.9, dynamic=0.4, four=0.4, static=0.8), np.mean),
        # 16 bits: 100 times SmolLM2's. 8 bits: 4 times q8's. Others: a fifth above the worst of any quantizer's.
        "kl": Measure(kl, _floors(half=0.002, eight=0.02, dynamic=0.7, four=0.5, static=0.7), np.mean, least=True),
        # What users of embeddings expect; 4 bits and static ones where the word is "usable", or what MiniLM has.
        "cosine": Measure(cosine, _floors(half=0.9999, eight=0.99, dynamic=0.99, four=0.95, static=0.97), np.min),
        # No detector with trained weights was measured: guesses.
        "iou": Measure(iou, _floors(half=0.98, eight=0.9, dynamic=0.75, four=0.75, static=0.75), np.mean),
        # The worst case is of random inputs, or of a past that no text has: a tenth below SmolLM2's.
        "cases": Measure(cosine, _floors(half=None, eight=0.95, dynamic=0.6, four=0.6, static=0.5), np.min),
        # Nearest codes have 0.988 and more; one scale for a whole kernel of a convolution may have less than for rows.
        "weights": Measure(cosine, _floors(half=None, eight=0.999, dynamic=0.9, four=0.98, static=0.999), np.min),
    }
)

TOKEN_TASKS = (
    *("text-generation", "text2text-generation", "automatic-speech-recognition", "image-to-text"),
    *("image-text-to-text", "fill-mask"),
)
"""The tasks whose `logits` are scores of tokens."""


def output_measures(spec: PlannedSpec, output: str) -> tuple[str, ...]:
    """The names of the measures of an output of a part."""
    task, names = (spec.task or "").removesuffix("-with-past"), {each.name for each in spec.outputs}
    if output == BOXES:
        return ("iou",)
    if output == "logits" and BOXES in names:
        return ("agreement",)
    if output == "logits" and task in TOKEN_TASKS:
        return ("agreement", "kl")
    return ("agreement", "cosine") if output in ("logits", "start_logits", "end_logits") else ("cosine",)

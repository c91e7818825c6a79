"""The cache of a decoder in a plan: which tensors, for which layers, of how many heads."""

from __future__ import annotations

import re
from collections.abc import Collection

from attrs import frozen

from onnxfn.export.clients.folder import first_parts
from onnxfn.specs.algebra.planned import Part, Plan
from onnxfn.specs.axis_symbols import graph_axes

KEY, VALUE = "past_key_values.%d.key", "past_key_values.%d.value"
"""The names of keys and values, with `%d` for the layer."""

KEYS, VALUES = "keys", "values"
"""The attributes of a layer of the cache that hold keys and values, whatever their names in ONNX."""

_LAYER = re.compile(r"(?<=[._])(\d+)(?=[._]|$)")


@frozen
class CacheTensor:
    """One tensor of a cache.

    Attributes:
        template: The name of the input, with `%d` for the layer.
        output: The name of the output, with `%d` for the layer.
        layer: The number of the layer.
        sizes: The sizes of the axes; None for a dynamic one.
        attribute: The attribute of a layer of the cache in PyTorch: `keys`, `conv_states.0`.
    """

    template: str
    output: str
    layer: int
    sizes: tuple[int | None, ...]
    attribute: str


def decoder_of(plan: Plan) -> Part | None:
    """The part that is a whole decoder, from tokens to logits, with a cache; None if the plan has none.

    Of several dtypes it is that of the first choice.
    """
    whole = (part for part in first_parts(plan) if part.spec.feedback and not part.spec.links)
    return next((part for part in whole if "input_ids" in part.spec.inputs and "logits" in part.spec.outputs), None)


def other_inputs(part: Part, known: Collection[str]) -> tuple[str, ...]:
    """The inputs of a decoder besides the cache and `known`, the inputs that a program computes."""
    cached = {feedback.input for feedback in part.spec.feedback}
    return tuple(name for name in part.inputs if name not in cached and name not in known)


def cache_of(part: Part) -> tuple[CacheTensor, ...]:
    """The tensors of the cache of a part, in the order of its inputs. Those without the number of a layer have -1."""
    return tuple(_tensor(part, feedback.input, feedback.output) for feedback in part.spec.feedback)


def _tensor(part: Part, name: str, output: str) -> CacheTensor:
    template, layer = _template(name)
    axes, path = graph_axes(part.spec, part.spec.inputs[name]).axes, part.spec.inputs[name].forward_path
    sizes = tuple(int(axis.symbol) if axis.symbol.isdecimal() else None for axis in axes)
    return CacheTensor(template, _template(output)[0], layer, sizes, str(path[-1]))


def _template(name: str) -> tuple[str, int]:
    """The name of a tensor with `%d` for the number of its layer, and that number.

    >>> _template("past_key_values.3.key"), _template("past_key_self_3"), _template("state")
    (('past_key_values.%d.key', 3), ('past_key_self_%d', 3), ('state', -1))
    """
    layer = _LAYER.search(name)
    return (_LAYER.sub("%d", name, count=1), int(layer[1])) if layer else (name, -1)


def templates(cache: tuple[CacheTensor, ...]) -> dict[str, str]:
    """The templates of the inputs of a cache, each with that of its output."""
    return {tensor.template: tensor.output for tensor in cache}


def of_attribute(cache: tuple[CacheTensor, ...], attribute: str) -> tuple[CacheTensor, ...]:
    """The tensors of a cache that an attribute of its layers holds."""
    return tuple(tensor for tensor in cache if tensor.attribute == attribute)


def sizes_of(cache: tuple[CacheTensor, ...], template: str) -> tuple[tuple[int | None, ...], ...]:
    """The sizes of the tensors of a template, each once, in the order of the layers."""
    return tuple(dict.fromkeys(tensor.sizes for tensor in cache if tensor.template == template))

"""The sources of side files: the plan, the cache of its decoder, and the text files in the folder of the export."""

import json
import re
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from attrs import frozen

from onnxfn.specs.algebra.planned import Part, Plan
from onnxfn.specs.axis_symbols import graph_axes

CONFIG, GENERATION_CONFIG = "config.json", "generation_config.json"


@frozen
class Folder:
    """The folder of an export before it is published; `sidecars` are the graphs with external data."""

    plan: Plan
    texts: Mapping[str, str] = MappingProxyType({})
    names: frozenset[str] = frozenset()
    subfolder: str = ""
    sidecars: tuple[str, ...] = ()


def json_object(folder: Folder, name: str) -> dict[str, Any] | None:
    """The object in a JSON file of a folder; None if there is no such file, or if it holds something else."""
    try:
        value = json.loads(folder.texts[name])
    except (KeyError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def json_text(value: Any) -> str:
    """A value as the text of a JSON file."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def changed(folder: Folder, name: str, new: Mapping[str, Any] | None) -> dict[str, str]:
    """The file with a new object, if that differs from the present one; else nothing."""
    return {} if new is None or new == json_object(folder, name) else {name: json_text(new)}


def first_parts(plan: Plan) -> tuple[Part, ...]:
    """The parts of a plan in the dtype that a program loads first: float32, else float16, ..."""
    # The order of choice for a program that loads a single file. None: no suffix.
    dtypes = (None, "float32", "float16", "bfloat16", "q4c", "q4", "q4f16", "q8", "int8", "uint8", "bnb4", "float64")
    order = {dtype: number for number, dtype in enumerate(dtypes)}
    first = min((part.dtype for part in plan.parts), key=lambda dtype: order.get(dtype, len(order)), default=None)
    return tuple(part for part in plan.parts if part.dtype == first)


KEY, VALUE = "past_key_values.%d.key", "past_key_values.%d.value"
"""The names of keys and values, with `%d` for the layer."""

KEYS, VALUES = "keys", "values"
"""The attributes of a layer of the cache that hold keys and values, whatever their names in ONNX."""

_LAYER = re.compile(r"(?<=[._])(\d+)(?=[._]|$)")


@frozen
class CacheTensor:
    """One tensor of a cache: its input and output (`%d`: the layer), the number of its layer, axes and attribute."""

    template: str
    output: str
    layer: int
    sizes: tuple[int | None, ...]
    attribute: str


Cache = tuple[CacheTensor, ...]


def decoder_of(plan: Plan) -> Part | None:
    """The part of the first dtype that is a whole decoder, from tokens to logits, with a cache; None without."""
    whole = (part for part in first_parts(plan) if part.spec.feedback and not part.spec.links)
    return next((part for part in whole if "input_ids" in part.spec.inputs and "logits" in part.spec.outputs), None)


def other_inputs(part: Part, known: Collection[str]) -> tuple[str, ...]:
    """The inputs of a decoder besides the cache and `known`, the inputs that a program computes."""
    cached = {feedback.input for feedback in part.spec.feedback}
    return tuple(name for name in part.inputs if name not in cached and name not in known)


def cache_of(part: Part) -> Cache:
    """The tensors of the cache of a part, in the order of its inputs. Those without the number of a layer have -1."""
    return tuple(_tensor(part, feedback.input, feedback.output) for feedback in part.spec.feedback)


def _tensor(part: Part, name: str, output: str) -> CacheTensor:
    template, layer = _template(name)
    axes, path = graph_axes(part.spec, part.spec.inputs[name]).axes, part.spec.inputs[name].forward_path
    sizes = tuple(int(axis.symbol) if axis.symbol.isdecimal() else None for axis in axes)
    return CacheTensor(template, _template(output)[0], layer, sizes, str(path[-1]))


def _template(name: str) -> tuple[str, int]:
    """A name with `%d` for the number of its layer, such as `past_key_self_%d`, and that number; -1 without one."""
    layer = _LAYER.search(name)
    return (_LAYER.sub("%d", name, count=1), int(layer[1])) if layer else (name, -1)


def templates(cache: Cache) -> dict[str, str]:
    """The templates of the inputs of a cache, each with that of its output."""
    return {tensor.template: tensor.output for tensor in cache}


def of_attribute(cache: Cache, attribute: str) -> tuple[CacheTensor, ...]:
    """The tensors of a cache that an attribute of its layers holds."""
    return tuple(tensor for tensor in cache if tensor.attribute == attribute)


def sizes_of(cache: Cache, template: str) -> tuple[tuple[int | None, ...], ...]:
    """The sizes of the tensors of a template, each once, in the order of the layers."""
    return tuple(dict.fromkeys(tensor.sizes for tensor in cache if tensor.template == template))

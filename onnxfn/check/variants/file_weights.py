"""PyTorch's model with the quantized weights of an ONNX file in place of its own.

Its outputs differ from those of the file by rounding alone, if the graph is right. So the graph is proven apart from
its weights: in float32, since a fault may be smaller than what all operators of a graph round in 16 bits. What
quantization and 16 bits cost is measured elsewhere: see `measures.py`.
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from onnxfn.check.variants.float_form import HALVES, OF_BLOCKS, float_form
from onnxfn.check.variants.quantized_matrices import Index, QuantizedMatrix
from onnxfn.check.variants.quantized_weights import FileWeight, tensors_by_name, weights_of_file
from onnxfn.check.verdict.case_comparisons import CheckedFile
from onnxfn.check.verdict.verdict import NO_ERROR, PEAK, Norms, exact_outputs, precision_of
from onnxfn.models.dtypes import dtypes_in, in_dtype_if_small, torch_dtype
from onnxfn.models.read_weights import reads_weights, with_rows
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.stored.reports import Tick, no_tick
from onnxfn.weights.onnx_files import graph_nodes, stored_tensors

KEPT_WEIGHTS = 3 << 28
"""The bytes of a model with the weights of a quantized file up to which they stay in memory; else 4 s a case."""


def quantized_file(model: Any, part: Part, file: Path, tick: Tick = no_tick) -> CheckedFile:
    """A quantized file with the model that it is compared with: `model`, in the dtype of the part, with its weights."""
    dtype = part.spec.target.float_dtype
    of_file = with_file_weights(in_rounded_weights(model, dtype), file)
    of_file = in_dtype_if_small(of_file, "float32", KEPT_WEIGHTS)
    content, lines = float_form(file, dtype)
    findings, in_memory = tuple(f"{part.name}: {line}" for line in lines), kept_weights(of_file, file)
    # What rounded constants of 16 bits, such as the scale of attention, add to outputs, in unit roundoffs: a tiny Llama
    # has 0.3, SmolLM2 0.002: its scale is a power of two. Scores 5 % larger in one of its 30 layers change the logits
    # by 3.2 to 7. Two unit roundoffs are allowed together with the floor.
    exact, bound = exact_outputs(of_file, "float32"), 1.5 * precision_of(dtype).unit_roundoff
    least = Norms(bound, PEAK * bound) if dtype in HALVES else NO_ERROR
    return CheckedFile(of_file, part, file, exact, tick, content, findings, in_memory, "float32", least)


def with_file_weights(model: Any, file: Path) -> Any:
    """A copy of a model whose quantized weights are those of a file. They are read from there when they are used."""
    from torch.nn import Embedding

    weights, _ = weights_of_file(model, file)
    tables = {path for path, module in model.named_modules(remove_duplicate=False) if isinstance(module, Embedding)}
    tensors, floats = model.state_dict(keep_vars=True), {each.name for each in stored_tensors(file)}
    rows = {}
    for weight in weights:
        tied = [name for name, tensor in tensors.items() if tensor is tensors[weight.name]]
        # A file may have a tied table of embeddings as floats, and as the codes of a layer.
        names = [name for name in tied if floats.isdisjoint(tied) or name.rpartition(".")[0] not in tables]
        rows.update(dict.fromkeys(names, partial(weight_rows, weight, tuple(tensors[weight.name].shape))))
    return with_rows(model, rows)


def in_rounded_weights(model: Any, dtype: str | None) -> Any:
    """A copy of a model whose float weights are rounded to 16 bits when they are used; the model if they are so."""
    names, wanted = model.state_dict(keep_vars=True), dtypes_in(model, torch_dtype(dtype)) if dtype in HALVES else {}
    others = {name: each for name, each in names.items() if wanted.get(id(each), each.dtype) != each.dtype}
    functions = {id(each): partial(_rounded_rows, each, wanted[id(each)]) for each in others.values()}
    return with_rows(model, {name: functions[id(each)] for name, each in others.items()}) if others else model


def _rounded_rows(weight: Any, dtype: Any, index: Any) -> Any:
    return weight.detach()[index].to(dtype).float()


def kept_weights(model: Any, file: Path) -> dict[str, Array]:
    """From the codes of each weight in blocks to its elements; none if the model reads weights from the file."""
    if reads_weights(model):
        return {}
    tensors = tensors_by_name(model)
    in_blocks = {node.input[1] for node in graph_nodes(file) if node.op_type == OF_BLOCKS}
    weights = [each for each in weights_of_file(model, file)[0] if each.matrix.name in in_blocks]
    arrays = {each.matrix.name: (tensors[each.name].mT if each.is_turned else tensors[each.name]) for each in weights}
    return {name: np.ascontiguousarray(tensor.numpy()) for name, tensor in arrays.items()}


def weight_rows(weight: FileWeight, shape: tuple[int, ...], index: Any) -> Any:
    """Some rows of a weight of this shape along its first axis, as a float32 tensor; the index is as in `Rows`."""
    import torch

    matrix = weight.matrix
    if weight.is_turned and len(shape) == 2:  # noqa: PLR2004 - rows and columns
        return torch.from_numpy(_values(matrix, slice(None))).mT[index]
    items = torch.from_numpy(_values(matrix, _file_rows(index, shape[0], matrix.shape[0] // shape[0])))
    return items.reshape(-1, *shape[:0:-1]).mT if weight.is_turned else items.reshape(-1, *shape[1:])


def _file_rows(index: Any, count: int, per_item: int) -> Index:
    """The rows of a matrix that are those items of a weight, which has `count` items of `per_item` rows."""
    if isinstance(index, slice):
        start, stop, _ = index.indices(count)
        return slice(start * per_item, stop * per_item)
    rows: Array = index.numpy()[:, None] * per_item + np.arange(per_item)
    return rows.reshape(-1)


def _values(matrix: QuantizedMatrix, index: Index) -> Array:
    """Some rows of a matrix as float32. Many of them are computed some after the other, so that these fit a cache."""
    if not isinstance(index, slice):
        return matrix.elements(index).values()
    start, stop, _ = index.indices(matrix.shape[0])
    values = np.empty((stop - start, matrix.shape[1]), np.float32)
    step = max(1, (1 << 20) // matrix.shape[1])
    for first in range(start, stop, step):
        last = min(first + step, stop)
        values[first - start : last - start] = matrix.elements(slice(first, last)).values()
    return values

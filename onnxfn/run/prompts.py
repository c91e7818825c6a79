"""The arguments of `generate`: arrays of tokens, of a mask, of features, checked before ONNX Runtime reads them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.errors import InvalidSpec, errors_as, first_line
from onnxfn.specs.stored.reports import Exported


def token_ids(input_ids: Any) -> Array:
    """Prompts as int64, `[batch, length]`. InvalidSpec if they are not token ids, or a prompt has none."""
    ids = encoder_array(input_ids)
    if not np.equal(ids, ids.astype(np.int64)).all():
        raise InvalidSpec(f"input_ids holds fractions, {ids.dtype}; pass token ids, which are integers")
    if ids.ndim != 2:  # noqa: PLR2004 - texts and tokens
        raise InvalidSpec(f"input_ids has the shape {list(ids.shape)}; pass [batch, length], such as [[1, 2, 3]]")
    return encoder_array(ids.astype(np.int64))


def encoder_array(inputs: Any) -> Array:
    """The inputs of an encoder: token ids or features. InvalidSpec if they are empty, negative ids or not numbers."""
    array = _numbers("input_ids", inputs)
    if array.size == 0:
        raise InvalidSpec(f"input_ids has the shape {list(array.shape)}; each prompt has at least one token")
    if array.dtype.kind == "i" and array.min() < 0:
        raise InvalidSpec(f"input_ids holds {array.min()}; a token is 0 or more")
    return array


def token_mask(attention_mask: Any, inputs: Array) -> Array:
    """The mask of the inputs as int64, `[batch, length]`; ones for None. InvalidSpec for another shape or value."""
    shape = inputs.shape[:2]
    if attention_mask is None:
        return np.ones(shape, dtype=np.int64)
    mask = _numbers("attention_mask", attention_mask)
    if mask.shape != shape:
        raise InvalidSpec(f"attention_mask has the shape {list(mask.shape)}, and input_ids {list(inputs.shape)}")
    if not np.isin(mask, (0, 1)).all():
        raise InvalidSpec("attention_mask holds other values than 0 for padding and 1 for tokens")
    return mask.astype(np.int64)


def stop_tokens(stop: Iterable[int]) -> tuple[int, ...]:
    """Token ids that end a text. InvalidSpec if they are not integers."""
    tokens = tuple(stop) if isinstance(stop, Iterable) and not isinstance(stop, str) else (None,)
    if not all(isinstance(token, int | np.integer) for token in tokens):
        raise InvalidSpec(f"stop is {stop!r}; pass token ids, such as (2,)")
    return tuple(map(int, tokens))


def number_of_tokens(number: Any) -> int:
    """The largest number of new tokens. InvalidSpec if it is not an integer, or below 0."""
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 0:
        raise InvalidSpec(f"max_new_tokens is {number!r}; pass a whole number, 0 or more")
    return int(number)


def export_path(exported: Exported | str | PathLike[str]) -> Path:
    """The path of an export. InvalidSpec if it is neither the result of `export` or `load` nor a path."""
    path = exported.path if isinstance(exported, Exported) else exported
    if not isinstance(path, str | PathLike):
        raise InvalidSpec(f"{exported!r} is not an export: pass the result of export(...), a folder, or an ONNX file")
    return Path(path)


def run_errors(inputs: Array) -> AbstractContextManager[None]:
    """Turns errors of ONNX Runtime inside into InvalidSpec: they are caused by inputs that do not fit the model."""

    def failed(error: Exception) -> InvalidSpec:
        reason = first_line(error).rpartition("Status Message: ")[2]
        values = f"tokens from {inputs.min()} to {inputs.max()}" if inputs.dtype.kind in "iu" else "features"
        return InvalidSpec(
            f"ONNX Runtime cannot run the model on input_ids of the shape {list(inputs.shape)} with {values}: {reason}"
        )

    return errors_as(failed)


def _numbers(name: str, values: Any) -> Array:
    try:
        array = np.asarray(values)
    except ValueError:
        raise InvalidSpec(f"{name} has rows of different lengths; pad the shorter prompts on the left") from None
    if array.dtype.kind not in "iufb" and array.size:
        raise InvalidSpec(f"{name} holds {array.dtype}, which are not numbers; pass the output of a tokenizer")
    return array

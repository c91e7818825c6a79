"""Greedy decoding with ONNX Runtime, by the names of a file alone: they are the interface."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from onnxfn.errors import InvalidSpec, NoModel, listed
from onnxfn.generators import Array
from onnxfn.results import Exported

PAST = "past_"
"""How the names of inputs begin that hold what earlier calls gave."""


def generate(
    exported: Exported | str | Path,
    input_ids: Array,
    attention_mask: Array | None = None,
    *,
    max_new_tokens: int = 16,
    stop: Iterable[int] = (),
) -> Array:
    """Complete texts greedily: `[batch, prompt]` token ids -> `[batch, prompt + new]`.

    `exported` is what `export` gave for a decoder with past, or the ONNX file. Prompts of different lengths are padded
    at the left, with zeros in `attention_mask`. A text that has come to a token of `stop` repeats it until all have.
    """
    session = _session(exported)
    given = np.asarray(input_ids, dtype=np.int64)
    mask = np.ones_like(given) if attention_mask is None else np.asarray(attention_mask, dtype=np.int64)
    return greedy(session, given, mask, steps=max_new_tokens, stop=tuple(stop))


def greedy(session: Any, input_ids: Array, attention_mask: Array, *, steps: int, stop: tuple[int, ...] = ()) -> Array:
    """`generate` on an open session."""
    written, mask = input_ids, attention_mask
    new, past = written, _nothing(session, len(written))
    names = [one.name for one in session.get_outputs()]
    for _ in range(steps):
        answer = dict(zip(names, session.run(None, _feeds(session, new, mask, past)), strict=True))
        new = answer["logits"][:, -1:].argmax(axis=-1)
        if stop:
            ended = np.isin(written[:, -1:], stop) & (written.shape[1] > input_ids.shape[1])
            new = np.where(ended, written[:, -1:], new)
        written = np.concatenate([written, new], axis=1)
        mask = np.concatenate([mask, np.ones_like(new)], axis=1)
        past = {name: answer[given_name(name)] for name in past}
        if stop and np.isin(new, stop).all():
            break
    return written


def given_name(taken: str) -> str:
    """What an input of the past is called when it is given.

    >>> given_name("past_key_values.0.key"), given_name("past_conv.3")
    ('present.0.key', 'present_conv.3')
    """
    if taken.startswith("past_key_values."):
        return taken.replace("past_key_values.", "present.", 1)
    return taken.replace(PAST, "present_", 1)


def _feeds(session: Any, new: Array, mask: Array, past: Mapping[str, Array]) -> dict[str, Array]:
    places = np.maximum(mask.cumsum(axis=1) - 1, 0)[:, -new.shape[1] :]
    known = {"input_ids": new, "attention_mask": mask, "position_ids": places, **past}
    wanted = {one.name: one.type for one in session.get_inputs()}
    if missing := [name for name in wanted if name not in known]:
        raise InvalidSpec(f"nothing to feed {listed(missing)} with; generate knows {listed(known)}")
    return {name: known[name].astype(_dtype(kind)) for name, kind in wanted.items()}


def _nothing(session: Any, batch: int) -> dict[str, Array]:
    """The past before anything was said: of length 0, and zero where it has no length."""
    return {
        one.name: np.zeros([_length(size, batch) for size in one.shape], dtype=_dtype(one.type))
        for one in session.get_inputs()
        if one.name.startswith(PAST)
    }


def _length(size: int | str, batch: int) -> int:
    if isinstance(size, int):
        return size
    return batch if size == "batch_size" else 0


def _dtype(kind: str) -> np.dtype[Any]:
    """The numpy type of ONNX Runtime's `tensor(float16)`."""
    name = kind.removeprefix("tensor(").removesuffix(")")
    return np.dtype({"float": "float32", "double": "float64"}.get(name, name))


def _session(exported: Exported | str | Path) -> Any:
    import onnxruntime

    file = Path(exported.files[0] if isinstance(exported, Exported) else exported)
    if not file.is_file():
        raise NoModel(f"no file {file}; name the ONNX file of a decoder with past")
    return onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])

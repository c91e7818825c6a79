"""Greedy decoding with ONNX Runtime, by the names of the files alone: they are the interface."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from onnxfn.check.sessions import open_session
from onnxfn.specs.dummies import Array
from onnxfn.specs.edits.token_embeddings import EMBEDDING_FILE, EMBEDS
from onnxfn.specs.errors import InvalidSpec, ModelNotFound, listed
from onnxfn.specs.reports import Exported
from onnxfn.weights.layouts import onnx_folder

PAST = "past_"
"""How the names of inputs begin that hold what earlier calls gave."""

"""What a graph takes in place of tokens, and the file that gives it."""

CROSS = ".encoder."
"""In the names of what is kept of the cross-attention: it is the same at every step."""

ENCODER = "encoder_model"
DECODERS = (("decoder_model_merged",), ("decoder_model", "decoder_with_past_model"))
"""The files that write what an encoder has read: one, or one for the first token and one for the others."""

NOTHING: Mapping[str, Array] = MappingProxyType({})


def generate(
    exported: Exported | str | Path,
    input_ids: Array,
    attention_mask: Array | None = None,
    *,
    max_new_tokens: int = 16,
    stop: Iterable[int] = (),
    start: int | None = None,
) -> Array:
    """Write greedily: a decoder completes `[batch, prompt]` token ids to `[batch, prompt + new]`.

    `exported` is what `export` gave for a decoder with past, its ONNX file, or a folder. Prompts of different lengths
    are padded at the left, with zeros in `attention_mask`. A text that has come to a token of `stop` repeats it until
    all have. In a folder that has an encoder, `input_ids` are what that reads (token ids, or the features of sound or
    image), and `[batch, 1 + new]` comes back: the text begins with `start`, or else with the `decoder_start_token_id`
    of the folder's configuration. ModelNotFound when there is no such file, InvalidSpec when nobody says the start.
    """
    place = Path(exported.path if isinstance(exported, Exported) else exported)
    told: dict[str, Any] = {"steps": max_new_tokens, "stop": tuple(stop)}
    graphs = onnx_folder(place)
    if (graphs / f"{ENCODER}.onnx").is_file():
        first, later = _decoders(graphs)
        read = encoder_feeds(open_session(graphs / f"{ENCODER}.onnx"), np.asarray(input_ids), attention_mask)
        begun = np.full((len(input_ids), 1), _start(place) if start is None else start, dtype=np.int64)
        return greedy(first, begun, np.ones_like(begun), later=later, beside=read, **told)
    files = (Path(file) for file in exported.files) if isinstance(exported, Exported) else (graphs / "model.onnx",)
    written = (file for file in files if file.stem != EMBEDDING_FILE)
    file = place if place.suffix == ".onnx" else next(written)
    session = open_session(file)
    beside = open_session(file.parent / f"{EMBEDDING_FILE}.onnx") if EMBEDS in _names(session) else None
    given = np.asarray(input_ids, dtype=np.int64)
    mask = np.ones_like(given) if attention_mask is None else np.asarray(attention_mask, dtype=np.int64)
    return greedy(session, given, mask, table=beside, **told)


def most_likely_token(logits: Array, _: Array) -> Array:
    """The token that a model holds likeliest: `[batch, vocabulary]` -> `[batch]`."""
    best: Array = logits.argmax(axis=-1)
    return best


def most_likely_unused_token(logits: Array, written: Array) -> Array:
    """The likeliest of the tokens that a text has not yet: it never repeats itself, so each step depends on all."""
    fresh = logits.copy()
    np.put_along_axis(fresh, written, -np.inf, axis=-1)
    return most_likely_token(fresh, written)


def greedy(
    session: Any,
    input_ids: Array,
    attention_mask: Array,
    *,
    steps: int,
    stop: tuple[int, ...] = (),
    later: Any = None,
    beside: Mapping[str, Array] = NOTHING,
    choose: Callable[[Array, Array], Array] = most_likely_token,
    table: Any = None,
) -> Array:
    """`generate` on open sessions: `later` writes all tokens but the first, `beside` is fed at every step.

    `table` gives the embeddings of new tokens, where they are taken in place of these.
    """
    written, mask = input_ids, attention_mask
    later = session if later is None else later
    new, past, kept = written, _nothing(session, len(written)), _pasts(later)
    for _ in range(steps):
        embedded = {} if table is None else _answers(table, {"input_ids": new})
        answer = _answers(session, {**beside, **_text(session, new, mask), **embedded, **past})
        new = choose(answer["logits"][:, -1], written)[:, None]
        if stop:
            ended = np.isin(written[:, -1:], stop) & (written.shape[1] > input_ids.shape[1])
            new = np.where(ended, written[:, -1:], new)
        written = np.concatenate([written, new], axis=1)
        mask = np.concatenate([mask, np.ones_like(new)], axis=1)
        past = {name: past[name] if _settled(past, name) else answer[present_name(name)] for name in kept}
        session = later
        if stop and np.isin(new, stop).all():
            break
    return written


def encoder_feeds(session: Any, read: Array, mask: Array | None = None) -> dict[str, Array]:
    """What a decoder takes of an encoder: its states, and the mask of what it has read where it has one."""
    wanted = [one.name for one in session.get_inputs()]
    seen = np.ones(read.shape[:2], dtype=np.int64) if mask is None else np.asarray(mask, dtype=np.int64)
    feeds = {wanted[0]: read, **({"attention_mask": seen} if "attention_mask" in wanted else {})}
    states = _answers(session, feeds)["last_hidden_state"]
    return {"encoder_hidden_states": states, "encoder_attention_mask": seen}


def present_name(taken: str) -> str:
    """What an input of the past is called when it is given.

    >>> given_name("past_key_values.0.key"), given_name("past_conv.3")
    ('present.0.key', 'present_conv.3')
    """
    if taken.startswith("past_key_values."):
        return taken.replace("past_key_values.", "present.", 1)
    return taken.replace(PAST, "present_", 1)


def _settled(past: Mapping[str, Array], name: str) -> bool:
    """Whether what is kept under a name will never change: keys and values of what the encoder read."""
    return CROSS in name and name in past and past[name].size > 0


def _text(session: Any, new: Array, mask: Array) -> dict[str, Array]:
    """The new tokens, their places, and the mask: of the whole text, or of the new where a graph keeps no tokens."""
    places = np.maximum(mask.cumsum(axis=1) - 1, 0)[:, -new.shape[1] :]
    lengths = {one.name: one.shape[1] for one in session.get_inputs() if len(one.shape) > 1}
    length = lengths.get("input_ids", lengths.get(EMBEDS))
    seen = mask[:, -new.shape[1] :] if lengths.get("attention_mask") == length else mask
    return {"input_ids": new, "attention_mask": seen, "position_ids": places}


def _answers(session: Any, known: Mapping[str, Array]) -> dict[str, Array]:
    """What a session answers to those of the known arrays that it takes, by name."""
    wanted = {one.name: one.type for one in session.get_inputs()}
    if missing := [name for name in wanted if name not in known]:
        raise InvalidSpec(f"nothing to feed {listed(missing)} with; generate knows {listed(known)}")
    feeds = {name: known[name].astype(_dtype(kind)) for name, kind in wanted.items()}
    return dict(zip((one.name for one in session.get_outputs()), session.run(None, feeds), strict=True))


def _names(session: Any) -> list[str]:
    return [one.name for one in session.get_inputs()]


def _pasts(session: Any) -> list[str]:
    return [one.name for one in session.get_inputs() if one.name.startswith(PAST)]


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


def _start(folder: Path) -> int:
    """The token that a text begins with, as the configuration in a folder says."""
    for name in ("generation_config.json", "config.json"):
        told = json.loads((folder / name).read_text()) if (folder / name).is_file() else {}
        for one in (told, told.get("decoder") or {}):
            if one.get("decoder_start_token_id") is not None:
                return int(one["decoder_start_token_id"])
    raise InvalidSpec(f"no configuration in {folder} says decoder_start_token_id; say the first token: start=...")


def _decoders(folder: Path) -> tuple[Any, Any]:
    for stems in DECODERS:
        files = [folder / f"{stem}.onnx" for stem in stems]
        if all(file.is_file() for file in files):
            sessions = [open_session(file) for file in files]
            return sessions[0], sessions[-1]
    known = listed(" and ".join(stems) for stems in DECODERS)
    raise ModelNotFound(f"no decoder that keeps a past in {folder}; generate knows: {known}")

"""Greedy decoding with ONNX Runtime. All it needs is in the names of the files, their inputs and their outputs."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from attrs import evolve, frozen

from onnxfn.check.prompts import (
    encoder_array,
    export_path,
    number_of_tokens,
    run_errors,
    stop_tokens,
    token_ids,
    token_mask,
)
from onnxfn.check.sessions import open_session
from onnxfn.specs.dummies import Array
from onnxfn.specs.edits.logits_to_keep import NUM_LOGITS_TO_KEEP
from onnxfn.specs.edits.token_embeddings import EMBEDDING_FILE, EMBEDS
from onnxfn.specs.errors import InvalidSpec, ModelNotFound, listed
from onnxfn.specs.reports import Exported
from onnxfn.weights.layouts import dtype_suffix, graphs_of_dtype, onnx_folder

PAST = "past"
"""The prefix of inputs that hold the cache."""

CROSS_ATTENTION = ".encoder."
"""Part of the names of the cross-attention's keys and values. They are the same at each step."""

ENCODER = "encoder_model"
DECODERS = (("decoder_model_merged",), ("decoder_model", "decoder_with_past_model"))
"""The decoder files of an encoder-decoder: one file, or one for the first token and one for the others."""

NO_FEEDS: Mapping[str, Array] = MappingProxyType({})

ChooseTokens = Callable[[Array, Array], Array]
"""From the logits of the next token, `[batch, vocabulary]`, and the texts so far, `[batch, length]`, to `[batch]`."""


@frozen
class Decoder:
    """The ONNX Runtime sessions of a decoder.

    `first` runs the prompt and `later` the other tokens; they may be the same session. `embeddings` computes the
    embeddings of tokens, if the decoder takes these. `constant_feeds` are inputs that are the same at each step.
    `cache` is, for each input of the cache, the output that it is fed back from; None: as their names say.
    """

    first: Any
    later: Any
    embeddings: Any = None
    constant_feeds: Mapping[str, Array] = NO_FEEDS
    cache: Mapping[str, str] | None = None


def generate(
    exported: Exported | str | PathLike[str],
    input_ids: Array | Sequence[Sequence[int]],
    attention_mask: Array | Sequence[Sequence[int]] | None = None,
    *,
    max_new_tokens: int = 16,
    stop: Iterable[int] = (),
    start: int | None = None,
    dtype: str | None = None,
) -> Array:
    """Decodes texts greedily with ONNX Runtime.

    Args:
        exported: A decoder with past or an encoder-decoder: the result of `export` or of `load`, the folder of an
            export, or the ONNX file of a decoder.
        input_ids: Token ids, `[batch, length]`, as an array or as lists of one length: the prompts of a decoder, or
            the texts that an encoder reads. For an encoder of sound or images, its features.
        attention_mask: `[batch, length]`, 0 for padding and 1 for tokens. Prompts of different lengths are padded on
            the left. The default has no padding.
        max_new_tokens: The largest number of tokens that are decoded, 0 or more.
        stop: Token ids that end a text. An ended text is filled with its last token until all texts have ended.
        start: The first token that the decoder of an encoder-decoder gets. The default is `decoder_start_token_id` of
            the configuration in the folder. A decoder without an encoder has none.
        dtype: Which of the `dtypes` of the export runs. None: that of the result of `load`, the first of the export, or
            the files without an ending.

    Returns:
        Token ids, int64: `[batch, length + new]` for a decoder, its prompts included; `[batch, 1 + new]` for an
        encoder-decoder, `start` included.

    Raises:
        ModelNotFound: There is no such file, or no decoder with past in the folder.
        InvalidSpec: The decoder has an input that `generate` has no value for; `start` is neither given nor configured,
            or is given without an encoder; `max_new_tokens` is below 0; or the prompts are not for the model: a token
            that it does not have, a mask of another shape, no tokens.
        CheckFailed: ONNX Runtime cannot load a file, or the folder holds files of two exports.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from onnx import parser, save
        >>> counter = parser.parse_model('''<ir_version: 8, opset_import: ["": 17]>
        ...     counter (int64[batch_size, length] input_ids) => (float[batch_size, length, 10] logits)
        ...     <int64 one = {1}, int64 ten = {10}, float[2] off_and_on = {0.0, 1.0}>
        ...     { next = Add (input_ids, one)  logits = OneHot (next, ten, off_and_on) }''')
        >>> with TemporaryDirectory() as folder:
        ...     save(counter, f"{folder}/model.onnx")
        ...     generate(folder, np.array([[3, 4], [0, 1]]), max_new_tokens=3).tolist()
        [[3, 4, 5, 6, 7], [0, 1, 2, 3, 4]]
    """
    path, stop_ids, steps = export_path(exported), stop_tokens(stop), number_of_tokens(max_new_tokens)
    folder = onnx_folder(path)
    inputs = encoder_array(input_ids)
    mask = token_mask(attention_mask, inputs)
    suffix = dtype_suffix(_first_dtype(exported) if dtype is None else dtype)
    graphs_of_dtype(folder, dtype)  # raises ModelNotFound
    if (folder / f"{ENCODER}{suffix}.onnx").is_file():
        ids = np.full((len(inputs), 1), _start_token(path) if start is None else start, dtype=np.int64)
        decoder = _decoder_of_encoded(folder, suffix, inputs, mask)
        with run_errors(inputs):
            return greedy(decoder, ids, np.ones_like(ids), steps=steps, stop=stop_ids)
    if start is not None:
        raise InvalidSpec(f"start is {start!r}, and a decoder without an encoder starts with input_ids; leave it out")
    ids, decoder = token_ids(inputs), _decoder(_decoder_file(exported, folder, suffix), suffix)
    with run_errors(ids):
        return greedy(decoder, ids, mask, steps=steps, stop=stop_ids)


def _first_dtype(exported: Exported | str | PathLike[str]) -> str | None:
    """The first of the `dtypes` of an export, or the one that `load` was asked for; None if there is none."""
    return exported.plan.parts[0].dtype if isinstance(exported, Exported) else getattr(exported, "dtype", None)


def _decoder_of_encoded(folder: Path, suffix: str, inputs: Array, mask: Array) -> Decoder:
    """The decoder of an encoder-decoder, which reads what its encoder computes from the inputs."""
    decoder, encoder = _seq2seq_decoder(folder, suffix), open_session(folder / f"{ENCODER}{suffix}.onnx")
    with run_errors(inputs):
        return evolve(decoder, constant_feeds=encoder_feeds(encoder, inputs, mask))


def most_likely_token(logits: Array, _: Array) -> Array:
    """The token with the largest logit."""
    tokens: Array = logits.argmax(axis=-1)
    return tokens


def most_likely_unused_token(logits: Array, texts: Array) -> Array:
    """The token with the largest logit among those that a text does not have yet.

    Such a text never repeats itself, so each step depends on all steps before it.
    """
    unused = logits.copy()
    np.put_along_axis(unused, texts, -np.inf, axis=-1)
    return most_likely_token(unused, texts)


def greedy(
    decoder: Decoder,
    input_ids: Array,
    attention_mask: Array,
    *,
    steps: int,
    stop: tuple[int, ...] = (),
    choose: ChooseTokens = most_likely_token,
) -> Array:
    """The texts `[batch, length + new]` that a decoder continues: see `generate`. `choose` chooses the next tokens."""
    texts, mask, new, session = input_ids, attention_mask, input_ids, decoder.first
    cache = _cache_by_name(decoder.later) if decoder.cache is None else decoder.cache
    past = _empty_past(session, len(texts), cache)
    for _ in range(steps):
        embeddings = {} if decoder.embeddings is None else _outputs(decoder.embeddings, {"input_ids": new})
        outputs = _outputs(session, {**decoder.constant_feeds, **_text_feeds(session, new, mask), **embeddings, **past})
        new = choose(outputs["logits"][:, -1], texts)[:, None]
        if stop:
            has_ended = np.isin(texts[:, -1:], stop) & (texts.shape[1] > input_ids.shape[1])
            new = np.where(has_ended, texts[:, -1:], new)
        texts = np.concatenate([texts, new], axis=1)
        mask = np.concatenate([mask, np.ones_like(new)], axis=1)
        past = {name: past[name] if _is_constant(past, name) else outputs[output] for name, output in cache.items()}
        session = decoder.later
        if stop and np.isin(new, stop).all():
            break
    return texts


def encoder_feeds(session: Any, inputs: Array, mask: Array | None = None) -> dict[str, Array]:
    """Runs an encoder; returns the inputs that a decoder takes from it: the encoder's states and its mask."""
    names = _input_names(session)
    encoder_mask = np.ones(inputs.shape[:2], dtype=np.int64) if mask is None else np.asarray(mask, dtype=np.int64)
    feeds = {names[0]: inputs, **({"attention_mask": encoder_mask} if "attention_mask" in names else {})}
    states = _outputs(session, feeds)["last_hidden_state"]
    return {"encoder_hidden_states": states, "encoder_attention_mask": encoder_mask}


def present_name(name: str) -> str:
    """The name of the output that a past input is fed back from.

    >>> present_name("past_key_values.0.key"), present_name("past_conv.3"), present_name("past.0.key")
    ('present.0.key', 'present_conv.3', 'present.0.key')
    """
    stem = "past_key_values" if name.startswith("past_key_values.") else PAST
    return name.replace(stem, "present", 1)


def _is_constant(past: Mapping[str, Array], name: str) -> bool:
    """Whether a past input stays the same from now on: computed keys and values of the cross-attention."""
    return CROSS_ATTENTION in name and name in past and past[name].size > 0


def _text_feeds(session: Any, new: Array, mask: Array) -> dict[str, Array]:
    """The token ids, position ids and attention mask of the new tokens, and the number of logits.

    The attention mask is that of the whole text. Of a graph whose cache has no length it is that of the new tokens: its
    second axis has the same symbol as the tokens'.
    """
    positions = np.maximum(mask.cumsum(axis=1) - 1, 0)[:, -new.shape[1] :]
    lengths = {input_.name: input_.shape[1] for input_ in session.get_inputs() if len(input_.shape) > 1}
    length = lengths.get("input_ids", lengths.get(EMBEDS))
    is_of_new_tokens = lengths.get("attention_mask") == length
    mask_feed = mask[:, -new.shape[1] :] if is_of_new_tokens else mask
    several = next((port.shape[:-2] for port in session.get_inputs() if port.name == "position_ids"), ())
    positions = np.broadcast_to(positions, (*several, *positions.shape))  # M-RoPE: one for each of three axes
    texts = {"input_ids": new, "attention_mask": mask_feed, "position_ids": positions}
    return texts | {NUM_LOGITS_TO_KEEP: np.array(1)}  # only the next token is read


def _outputs(session: Any, known: Mapping[str, Array]) -> dict[str, Array]:
    """Runs a session on those of the known arrays that it takes; returns its outputs by name."""
    dtypes = {input_.name: numpy_dtype(input_.type) for input_ in session.get_inputs()}
    if missing := [name for name in dtypes if name not in known]:
        raise InvalidSpec(f"generate has no value for the inputs {listed(missing)}; it knows {listed(known)}")
    feeds = {name: known[name].astype(dtype) for name, dtype in dtypes.items()}
    return dict(zip((output.name for output in session.get_outputs()), session.run(None, feeds), strict=True))


def _input_names(session: Any) -> list[str]:
    return [input_.name for input_ in session.get_inputs()]


def _cache_by_name(session: Any) -> dict[str, str]:
    """From each input of the cache to the output that it is fed back from, by their names."""
    return {name: present_name(name) for name in _input_names(session) if name.startswith(PAST)}


def _empty_past(session: Any, batch: int, names: Collection[str]) -> dict[str, Array]:
    """The past inputs before the first token: all dynamic axes but the batch have size 0, all values are 0."""
    symbol = _batch_symbol(session)
    return {
        input_.name: np.zeros(
            [_empty_size(size, batch if size == symbol else 0) for size in input_.shape], dtype=numpy_dtype(input_.type)
        )
        for input_ in session.get_inputs()
        if input_.name in names
    }


def _empty_size(size: int | str, dynamic: int) -> int:
    return size if isinstance(size, int) else dynamic


def _batch_symbol(session: Any) -> int | str:
    """The symbol of the batch axis: the first axis of the tokens."""
    axes: dict[str, list[int | str]] = {input_.name: input_.shape for input_ in session.get_inputs()}
    return axes.get("input_ids", axes.get(EMBEDS, ["batch_size"]))[0]


def numpy_dtype(runtime_type: str) -> np.dtype[Any]:
    """The numpy dtype of a type as ONNX Runtime prints it.

    >>> numpy_dtype("tensor(float)"), numpy_dtype("tensor(int64)")
    (dtype('float32'), dtype('int64'))
    """
    name = runtime_type.removeprefix("tensor(").removesuffix(")")
    return np.dtype({"float": "float32", "double": "float64"}.get(name, name))


def _start_token(folder: Path) -> int:
    """`decoder_start_token_id` of the configuration in a folder."""
    for name in ("generation_config.json", "config.json"):
        config = json.loads((folder / name).read_text()) if (folder / name).is_file() else {}
        for section in (config, config.get("decoder") or {}):
            if section.get("decoder_start_token_id") is not None:
                return int(section["decoder_start_token_id"])
    raise InvalidSpec(f"no configuration in {folder} has decoder_start_token_id; pass the first token: start=...")


def _decoder_file(exported: Exported | str | PathLike[str], folder: Path, suffix: str) -> Path:
    """The ONNX file of a decoder: the path if it is one, else the first of a variant that is no table of embeddings."""
    path = export_path(exported)
    if path.suffix == ".onnx":
        return path
    names = [part.name for part in exported.plan.parts] if isinstance(exported, Exported) else [f"model{suffix}"]
    return folder / next(f"{name}.onnx" for name in names if name.endswith(suffix) and not _is_table(name))


def _is_table(name: str) -> bool:
    """Whether a part looks up the embeddings of tokens."""
    return name.startswith(EMBEDDING_FILE)


def _decoder(file: Path, suffix: str) -> Decoder:
    session, table = open_session(file), file.parent / f"{EMBEDDING_FILE}{suffix}.onnx"
    return Decoder(session, session, open_session(table) if EMBEDS in _input_names(session) else None)


def _seq2seq_decoder(folder: Path, suffix: str) -> Decoder:
    for stems in DECODERS:
        files = [folder / f"{stem}{suffix}.onnx" for stem in stems]
        if all(file.is_file() for file in files):
            sessions = [open_session(file) for file in files]
            return Decoder(sessions[0], sessions[-1])
    known = listed(" and ".join(f"{stem}{suffix}" for stem in stems) for stems in DECODERS)
    raise ModelNotFound(f"no decoder with past in {folder}; generate knows: {known}")

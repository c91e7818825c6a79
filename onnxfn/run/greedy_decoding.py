"""Greedy decoding with ONNX Runtime sessions. All it needs is in the names of their inputs and outputs."""

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from attrs import evolve, frozen

from onnxfn.run.merged_embeddings import Positions, merged_embeddings, token_positions
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.edits.logits_to_keep import NUM_LOGITS_TO_KEEP
from onnxfn.specs.edits.token_embeddings import EMBEDS
from onnxfn.specs.errors import InvalidSpec, listed
from onnxfn.specs.plan.cache_tensors import WRITE_INDICES

PAST = "past"
"""The prefix of inputs that hold the cache."""

NOTHING: Mapping[Any, Array] = MappingProxyType({})


@frozen
class Decoder:
    """The ONNX Runtime sessions of a decoder.

    `first` runs the prompt, `later` the other tokens, maybe in one session. `embeddings` computes those of tokens, if
    the decoder takes them. `constant_feeds` are inputs that are the same at each step. `cache`: from an input of the
    cache to the output that it is fed back from; None: as their names say. `features`: the rows that stand in place of
    placeholder tokens, by the id of these. `positions` computes the positions of tokens.
    """

    first: Any
    later: Any
    embeddings: Any = None
    constant_feeds: Mapping[str, Array] = NOTHING
    cache: Mapping[str, str] | None = None
    features: Mapping[int, Array] = NOTHING
    positions: Positions = token_positions


def most_likely_token(logits: Array, _: Array) -> Array:
    """The token with the largest logit."""
    tokens: Array = logits.argmax(axis=-1)
    return tokens


def most_likely_unused_token(logits: Array, texts: Array) -> Array:
    """The token with the largest logit among those that a text lacks: so each step depends on all steps before it."""
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
    choose: Callable[[Array, Array], Array] = most_likely_token,
) -> Array:
    """The texts `[batch, length + new]` that a decoder continues: see `generate`. `choose` chooses the next tokens."""
    # `choose` takes the logits of the next token, `[batch, vocabulary]`, and the texts so far, `[batch, length]`.
    texts, mask, new = input_ids, attention_mask, input_ids
    cache = _cache_by_name(decoder.later) if decoder.cache is None else decoder.cache
    past = _empty_past(decoder.first, len(texts), cache)
    for _ in range(steps):
        outputs, past = _read(decoder, new, mask, past, cache)
        decoder = evolve(decoder, first=decoder.later, features=NOTHING)
        new = choose(outputs["logits"][:, -1], texts)[:, None]
        if stop:
            has_ended = np.isin(texts[:, -1:], stop) & (texts.shape[1] > input_ids.shape[1])
            new = np.where(has_ended, texts[:, -1:], new)
        texts = np.concatenate([texts, new], axis=1)
        mask = np.concatenate([mask, np.ones_like(new)], axis=1)
        if stop and np.isin(new, stop).all():
            break
    return texts


def _read(
    decoder: Decoder, new: Array, mask: Array, past: Mapping[str, Array], cache: Mapping[str, str]
) -> tuple[dict[str, Array], dict[str, Array]]:
    """The outputs for the last of new tokens, and the past after them. A graph of fixed length reads them in steps."""
    step, before = _fixed_length(decoder.first) or new.shape[1], mask.shape[1] - new.shape[1]
    if new.shape[1] % step:
        raise InvalidSpec(f"the graph reads {step} tokens at a time, and the prompts have {new.shape[1]}: pad them")
    for end in range(step, new.shape[1] + 1, step):
        outputs = decoded(decoder, new[:, end - step : end], mask[:, : before + end], past)
        # The keys and values of the cross-attention stay the same once they are computed.
        constant = {name for name, array in past.items() if ".encoder." in name and array.size > 0}
        past = {name: past[name] if name in constant else outputs[output] for name, output in cache.items()}
    return outputs, dict(past)


def _fixed_length(session: Any) -> int | None:
    """The number of tokens that a graph with a static cache reads at a time; None for any number."""
    shapes = {port.name: port.shape for port in session.get_inputs()}
    length = shapes.get("input_ids", shapes.get(EMBEDS, ()))[1:2]
    return length[0] if WRITE_INDICES in shapes and length and isinstance(length[0], int) else None


def prompt_outputs(decoder: Decoder, input_ids: Array, attention_mask: Array) -> dict[str, Array]:
    """The outputs of a decoder for prompts, `[batch, length, ...]`; some graphs give the logits of the last token."""
    cache = _cache_by_name(decoder.first) if decoder.cache is None else decoder.cache
    past = _empty_past(decoder.first, len(input_ids), cache)
    return decoded(decoder, input_ids, attention_mask, past, logits=0)


def decoded(
    decoder: Decoder, new: Array, mask: Array, past: Mapping[str, Array], *, logits: int = 1
) -> dict[str, Array]:
    """The outputs of one step of a decoder for new tokens, `[batch, new]`: logits of the last `logits`; 0: of all."""
    session = decoder.first
    feeds = {**decoder.constant_feeds, **_text_feeds(session, new, mask, decoder.positions), **past}
    if decoder.embeddings is not None:
        feeds |= session_outputs(decoder.embeddings, {"input_ids": new})
        feeds[EMBEDS] = merged_embeddings(feeds[EMBEDS], new, decoder.features)
    return session_outputs(session, feeds | {NUM_LOGITS_TO_KEEP: np.array(logits)})


def encoder_feeds(session: Any, inputs: Array, mask: Array) -> dict[str, Array]:
    """Runs an encoder; returns the inputs that a decoder takes from it: the encoder's states and its mask."""
    names = input_names(session)
    feeds = {names[0]: inputs, **({"attention_mask": mask} if "attention_mask" in names else {})}
    states = session_outputs(session, feeds)["last_hidden_state"]
    return {"encoder_hidden_states": states, "encoder_attention_mask": mask}


def present_name(name: str) -> str:
    """The name of the output that a past input is fed back from."""
    stem = "past_key_values" if name.startswith("past_key_values.") else PAST
    return name.replace(stem, "present", 1)


def _text_feeds(session: Any, new: Array, mask: Array, positions_of: Positions) -> dict[str, Array]:
    """The token ids, position ids and attention mask of the new tokens.

    The mask covers the whole text, or the new tokens alone, if its second axis has the symbol of the tokens. With a
    static cache it covers the buffers, and the graph is told where they end.
    """
    positions = positions_of(mask)[..., -new.shape[1] :]
    shapes: dict[str, Sequence[Any]] = {port.name: port.shape for port in session.get_inputs()}
    length = shapes.get("input_ids", shapes.get(EMBEDS, ()))[1:2]
    mask_feed = mask[:, -new.shape[1] :] if shapes.get("attention_mask", ())[1:2] == length else mask
    several = shapes.get("position_ids", ())[:-2]  # M-RoPE: one for each of three axes
    positions = np.broadcast_to(positions, (*several, *positions.shape[-2:]))
    feeds = {"input_ids": new, "attention_mask": mask_feed, "position_ids": positions}
    return feeds | _static_feeds(session, mask, new.shape[1]) if WRITE_INDICES in shapes else feeds


def _static_feeds(session: Any, mask: Array, new: int) -> dict[str, Array]:
    """The mask over buffers of one length, and the index of the new tokens. InvalidSpec if the text is longer."""
    length, text = int(session.get_modelmeta().custom_metadata_map["onnxfn.static_cache"]), mask.shape[1]
    if text > length:
        raise InvalidSpec(
            f"the static cache holds {length} tokens with the prompt and its padding, and token {text} does not fit; "
            "ask for fewer new tokens, or export a longer cache: with_static_cache(spec, length=...) (--static-cache)"
        )
    return {"attention_mask": np.pad(mask, ((0, 0), (0, length - text))), WRITE_INDICES: np.array([text - new])}


def session_outputs(session: Any, known: Mapping[str, Array]) -> dict[str, Array]:
    """Runs a session on those of the known arrays that it takes; returns its outputs by name."""
    dtypes = {input_.name: numpy_dtype(input_.type) for input_ in session.get_inputs()}
    if missing := [name for name in dtypes if name not in known]:
        raise InvalidSpec(f"generate has no value for the inputs {listed(missing)}; it knows {listed(known)}")
    feeds = {name: known[name].astype(dtype) for name, dtype in dtypes.items()}
    return dict(zip((output.name for output in session.get_outputs()), session.run(None, feeds), strict=True))


def input_names(session: Any) -> list[str]:
    """The names of the inputs of a session."""
    return [input_.name for input_ in session.get_inputs()]


def _cache_by_name(session: Any) -> dict[str, str]:
    """From each input of the cache to the output that it is fed back from, by their names."""
    return {name: present_name(name) for name in input_names(session) if name.startswith(PAST)}


def _empty_past(session: Any, batch: int, names: Collection[str]) -> dict[str, Array]:
    """The past inputs before the first token: all dynamic axes but the batch have size 0, all values are 0."""
    ports = {port.name: port for port in session.get_inputs()}
    tokens = ports.get("input_ids", ports.get(EMBEDS))
    sizes = {tokens.shape[0] if tokens else "batch_size": batch}  # the batch is the first axis of the tokens

    def empty(port: Any) -> Array:
        shape = [axis if isinstance(axis, int) else sizes.get(axis, 0) for axis in port.shape]
        return np.zeros(shape, dtype=numpy_dtype(port.type))

    return {name: empty(port) for name, port in ports.items() if name in names}


def numpy_dtype(runtime_type: str) -> np.dtype[Any]:
    """The numpy dtype of a type as ONNX Runtime prints it."""
    name = runtime_type.removeprefix("tensor(").removesuffix(")")
    return np.dtype({"float": "float32", "double": "float64"}.get(name, name))

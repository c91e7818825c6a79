"""Inputs that are wider than those of the check: longer texts, masks with holes, special tokens, each token once."""

from collections.abc import Callable, Iterator, Mapping
from itertools import cycle
from typing import Any

import numpy as np

from onnxfn.check.cases.references import case_inputs
from onnxfn.check.verdict.compare import valid_elements
from onnxfn.models.dtypes import in_dtype
from onnxfn.models.forward import torch_outputs
from onnxfn.specs.algebra.dummies import padded, sized
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.plan.check_cases import past_lengths, with_dummies

Arrays = dict[str, np.ndarray]
Change = Callable[[Arrays, np.random.Generator, Mapping[str, int]], Arrays]

LONGEST = 160
"""The positions of the models."""

WHOLE_TEXTS = ((1, 1), (2, 2), (3, 33), (5, 64), (2, 120), (1, LONGEST))
"""Batch size and length of texts that are read as a whole."""

CONTINUED = ((2, 0, 60), (1, 0, LONGEST), (3, 5, 7), (2, 33, 1), (5, 90, 1), (2, 90, 7), (1, 20, 30), (2, 1, 45))
"""Batch size, length of the past, and new tokens."""

ENCODED = (1, 17, 50, 110)
"""Lengths of the texts that an encoder read."""


def holes(arrays: Arrays, random: np.random.Generator, _: Mapping[str, int]) -> Arrays:
    """A fifth of the tokens is masked, the first and the last of each row excepted."""
    masks = {name: array.copy() for name, array in arrays.items() if name.endswith("mask")}
    for mask in masks.values():
        if mask.shape[1] > 2:
            mask[:, 1:-1] *= random.random(mask[:, 1:-1].shape) > 0.2
    return {**arrays, **masks}


def pad_tokens(arrays: Arrays, _: np.random.Generator, tokens: Mapping[str, int]) -> Arrays:
    places = masked_places(arrays)
    if places is None or "pad" not in tokens:
        return arrays
    return {**arrays, "input_ids": np.where(places, tokens["pad"], arrays["input_ids"])}


def masked_places(arrays: Arrays) -> np.ndarray | None:
    """True where a token is masked; None for tokens without a mask of their own, as in a decoder after an encoder."""
    name = next((name for name in arrays if name.endswith("attention_mask")), "encoder")
    if "input_ids" not in arrays or "encoder" in name:
        return None
    return arrays[name][:, -arrays["input_ids"].shape[1] :] == 0


def without_pad_tokens(arrays: Arrays, tokens: Mapping[str, int]) -> Arrays:
    """No place that is not masked holds the pad token, as in the texts of a tokenizer; a first token may be one."""
    if "input_ids" not in arrays or "pad" not in tokens or tokens["pad"] == tokens.get("start"):
        return arrays
    ids, places = arrays["input_ids"], masked_places(arrays)
    is_token = True if places is None else ~places
    return {**arrays, "input_ids": np.where((ids == tokens["pad"]) & is_token, ids + 1, ids)}


def end_tokens(arrays: Arrays, random: np.random.Generator, tokens: Mapping[str, int]) -> Arrays:
    """A tenth of the tokens is an end token; masked places hold the pad token."""
    if "input_ids" not in arrays or "end" not in tokens:
        return arrays
    ids = arrays["input_ids"]
    changed = np.where(random.random(ids.shape) < 0.1, tokens["end"], ids)
    return pad_tokens({**arrays, "input_ids": changed}, random, tokens)


CHANGES: Mapping[str, Change] = {
    "as_it_is": lambda arrays, *_: arrays,
    **{change.__name__: change for change in (holes, pad_tokens, end_tokens)},
}


def text_config(model: Any) -> Any:
    return getattr(model.config, "text_config", None) or model.config


def special_tokens(model: Any) -> dict[str, int]:
    """The pad token, the end token and the first token of a decoder, those that the configuration names."""
    named = {"pad": "pad_token_id", "end": "eos_token_id", "start": "decoder_start_token_id"}
    found = {kind: getattr(text_config(model), name, None) for kind, name in named.items()}
    return {kind: token for kind, token in found.items() if isinstance(token, int)}


def longest_text(model: Any) -> int:
    """The tokens of the longest text: RoBERTa counts positions from behind the pad token."""
    config = text_config(model)
    unused = config.pad_token_id + 1 if config.model_type == "roberta" else 0
    return LONGEST - unused


def wide_inputs(model: Any, part: Part) -> Iterator[tuple[str, Arrays]]:
    """Names and inputs, on which an export of a part must be right too."""
    tokens = special_tokens(model)
    padding, changes = cycle(("right", "left", "none")), cycle(CHANGES)
    for number, sizes in enumerate(sizes_of(model, part)):
        for _ in range(2):
            side, change = next(padding), next(changes)
            random = np.random.default_rng(number)
            spec = with_dummies(part.spec, sized(**sizes), padded(side))
            arrays = case_inputs(model, part, spec, seed=number + 7)
            arrays = without_pad_tokens(CHANGES[change](arrays, random, tokens), tokens)
            yield f"{sizes}, padding {side}, {change}", arrays
    yield from every_token(model, part, tokens)


def sizes_of(model: Any, part: Part) -> Iterator[dict[str, int]]:
    symbols = {symbol for axes in part.inputs.values() for symbol in axes.values() if symbol.isidentifier()}
    pasts = past_lengths(part.spec)
    encoded = cycle(ENCODED)
    for batch, past, new in CONTINUED if pasts else ((batch, 0, new) for batch, new in WHOLE_TEXTS):
        wanted = {
            **{symbol: batch for symbol in symbols if symbol.endswith("batch_size")},
            **{symbol: min(new, longest_text(model)) for symbol in symbols if symbol.endswith("sequence_length")},
            **{symbol: past for symbol in symbols if symbol.startswith("past")},
        }
        if pasts or "encoder_hidden_states" in part.inputs:
            wanted |= {symbol: next(encoded) for symbol in symbols if symbol.startswith("encoder")}
        yield {symbol: size for symbol, size in wanted.items() if symbol in symbols}


def every_token(model: Any, part: Part, tokens: Mapping[str, int]) -> Iterator[tuple[str, Arrays]]:
    length, vocabulary = 50, getattr(text_config(model), "vocab_size", 0)
    if "input_ids" not in part.inputs or not vocabulary:
        return
    batch = -(-vocabulary // length)
    sizes = {
        symbol: batch if symbol.endswith("batch_size") else 0 if symbol.startswith("past") else length
        for symbol in next(sizes_of(model, part))
    }
    arrays = case_inputs(model, part, with_dummies(part.spec, sized(**sizes), padded("none")))
    ids = (np.arange(batch * length) % vocabulary).reshape(batch, length)
    yield "every token", without_pad_tokens({**arrays, "input_ids": ids}, tokens)


def torch_answers(model: Any, part: Part, arrays: Arrays) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    dtypes = part.spec.target.float_dtype or "float32", "float64"
    own, exact = (torch_outputs(in_dtype(model, dtype), part, arrays) for dtype in dtypes)
    return own, exact


def distance(part: Part, index: int, arrays: Arrays, left: np.ndarray, right: np.ndarray) -> float:
    """The largest distance of two arrays of an output, at tokens; infinite if their shapes differ."""
    if left.shape != right.shape or left.dtype.kind != right.dtype.kind:
        return np.inf
    select = valid_elements(part.spec, part.spec.outputs[index], arrays)
    first, second = (select(array).astype(np.float64) for array in (left, right))
    with np.errstate(invalid="ignore"):
        distances = np.abs(first - second)
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    distances = np.where(same, 0.0, np.where(np.isnan(distances), np.inf, distances))
    return float(distances.max(initial=0.0))

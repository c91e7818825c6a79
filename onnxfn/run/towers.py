"""The encoder files of images and sounds, and what a decoder takes from them: features, its inputs, its first token."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from attrs import evolve

from onnxfn.architectures.placeholders import AUDIO_FEATURES, IMAGE_FEATURES, PLACES, Placeholders, placeholder_of
from onnxfn.run.greedy_decoding import Decoder, input_names, session_outputs
from onnxfn.run.merged_embeddings import merged_embeddings, mrope_positions, token_positions
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.edits.token_embeddings import EMBEDS, IDS
from onnxfn.specs.errors import InvalidSpec, listed

TOWERS: Mapping[str, str] = MappingProxyType({"vision_encoder": IMAGE_FEATURES, "audio_encoder": AUDIO_FEATURES})
"""The stem of a file that reads images or sounds -> the output with its features."""

GRIDS: Mapping[str, str] = MappingProxyType({IMAGE_FEATURES: "image_grid_thw"})
"""The name of features -> the argument with the patches of each image in time, height and width."""


def argument_of(input_name: str) -> str:
    """The argument of `forward` that an input of a tower, as clients name it, is."""
    known = {"grid_thw": "image_grid_thw", "audio_values": "input_features", "pixel_position_ids": "image_position_ids"}
    return known.get(input_name, input_name)


def feature_rows(sessions: Mapping[str, Any], known: Placeholders, arguments: Mapping[str, Array]) -> dict[int, Array]:
    """The features, `[rows, width]`, by placeholder token, of towers whose first input is given; of others no rows.

    InvalidSpec if another input of a tower is not given.
    """
    rows, is_ordinary = dict[int, Array](), any(types.argument == PLACES for types in known.types)
    for stem, session in sessions.items():
        names = input_names(session)
        if argument_of(names[0]) not in arguments:
            if TOWERS[stem] in known.tokens and not is_ordinary:
                rows.setdefault(known.tokens[TOWERS[stem]], np.zeros((0, 1)))
            continue
        if missing := [name for name in names if argument_of(name) not in arguments]:
            raise InvalidSpec(f"{stem}.onnx takes {listed(missing)}; the processor gives {listed(arguments)}")
        feeds = {name: arguments[argument_of(name)] for name in names}
        features = session_outputs(session, feeds)[TOWERS[stem]]
        others = {name: array for name, array in arguments.items() if name not in map(argument_of, names)}
        rows[placeholder_of(TOWERS[stem], known)] = real_rows(features, others)
    return rows


def embedded(
    table: Any, sessions: Mapping[str, Any], known: Placeholders, arguments: Mapping[str, Array]
) -> dict[str, Array]:
    """The arguments with the embeddings of tokens by `table`, and features of `sessions` in their places."""
    ids, rows = arguments[IDS], feature_rows(sessions, known, arguments)
    return {**arguments, EMBEDS: merged_embeddings(session_outputs(table, {IDS: ids})[EMBEDS], ids, rows)}


def encoder_outputs(encoder: Part, decoder: Part, session: Any, arguments: Mapping[str, Array]) -> dict[str, Array]:
    """The inputs of a decoder from its encoder: outputs of the encoder, or inputs that both share."""
    paths = {input_.name: str(input_.forward_path[0]) for input_ in encoder.spec.inputs}
    inputs = {name: arguments[argument] for name, argument in paths.items() if argument in arguments}
    computed = {**inputs, **session_outputs(session, inputs)}
    links = (link for link in decoder.spec.links if link.part == encoder.name and link.input in decoder.inputs)
    return {link.input: computed[link.output] for link in links}


def start_tokens(model: Any, count: int) -> Array:
    """The first token of the decoder for each of `count` texts, `[count, 1]`."""
    configs = (model.generation_config, model.config, model.config.get_text_config(decoder=True))
    keys = ("decoder_start_token_id", "bos_token_id", "pad_token_id")  # as `generate` reads them, and a last resort
    known = (getattr(config, key, None) for key in keys for config in configs)
    return np.full((count, 1), next((token for token in known if token is not None), 0), dtype=np.int64)


def real_rows(features: Array, arguments: Mapping[str, Array]) -> Array:
    """The rows of features; arguments that the tower does not take may have a mask of rows, as of Granite Speech.

    >>> real_rows(np.arange(6).reshape(2, 3, 1), {"input_features_mask": np.array([[1, 1, 0], [1, 0, 0]])}).tolist()
    [[0], [1], [3]]
    """
    mask = arguments.get("input_features_mask", np.zeros(0))
    is_row = mask.astype(bool) if mask.shape == features.shape[:-1] else np.ones(features.shape[:-1], bool)
    rows: Array = features[is_row]
    return rows


def with_features(
    decoder: Decoder, sessions: Mapping[str, Any], known: Placeholders, arguments: Mapping[str, Array]
) -> Decoder:
    """The decoder for prompts in which features stand in the places of placeholder tokens, with their positions."""
    grids = {placeholder_of(name, known): arguments[grid] for name, grid in GRIDS.items() if grid in arguments}
    positions: Callable[[Array], Array] = partial(token_positions, first=known.first_position)
    if grids and takes_three_positions(decoder.first):
        of_texts = partial(mrope_positions, input_ids=arguments[IDS], grids=grids)
        positions = partial(of_texts, merge_size=known.merge_size, newlines=known.newlines)
    return evolve(decoder, features=feature_rows(sessions, known, arguments), positions=positions)


def takes_three_positions(session: Any) -> bool:
    """Whether a decoder takes positions in time, height and width (M-RoPE)."""
    shapes = {port.name: port.shape for port in session.get_inputs()}
    return len(shapes.get("position_ids", ())) == 3  # noqa: PLR2004 - three axes, batch, length

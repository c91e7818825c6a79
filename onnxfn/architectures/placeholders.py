"""The rules by which tokens and features of images and sounds become one sequence, from a configuration."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from attrs import field, frozen

from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.errors import InvalidSpec, listed

IMAGE_FEATURES, AUDIO_FEATURES = "image_features", "audio_features"

PLACEHOLDER_KEYS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        IMAGE_FEATURES: ("image_token_id", "image_token_index", "image_patch_id", "video_token_index"),
        AUDIO_FEATURES: ("audio_token_id", "audio_token_index"),
    }
)
"""The output of a file that reads images or sounds -> the keys of a configuration with its placeholder token."""

MERGE_KEYS = ("spatial_merge_size", "merge_size", "merge_kernel_size")
"""Keys of a configuration with the number of patches in height, and in width, that become one token: one or two."""

COUNT_FROM_PADDING = ("kosmos-2", "kosmos-2.5")
"""Model types whose first position is the padding id plus 1; padding tokens are not counted."""

PLACES = "image_embeds_position_mask"
"""The argument of `forward` that marks the places of features, in a model without a placeholder token."""


@frozen
class TokenTypes:
    """An argument of `forward` with the type of each token; `attention`: the rule between these types, or empty."""

    argument: str
    text: int = 0
    features: Mapping[str, int] = field(factory=dict)
    new: int = 0
    attention: str = ""

    @property
    def tells_prompts(self) -> bool:
        """Whether attention differs between the tokens of a prompt and those that the model writes."""
        return bool(self.attention) and self.text != self.new


TOKEN_TYPES = (
    TokenTypes("mm_token_type_ids", features=MappingProxyType({IMAGE_FEATURES: 1, AUDIO_FEATURES: 3})),
    TokenTypes(
        "token_type_ids",
        features=MappingProxyType({IMAGE_FEATURES: 1}),
        attention="the tokens of an image attend to each other in both directions",
    ),
)
"""The arguments for types of tokens, as processors of transformers fill them."""

OTHER_TOKEN_TYPES: Mapping[str, tuple[TokenTypes, ...]] = MappingProxyType(
    {
        "paligemma": (
            TokenTypes(
                "token_type_ids", new=1, attention="the tokens of a prompt attend to each other in both directions"
            ),
        ),
        **dict.fromkeys(COUNT_FROM_PADDING, (TokenTypes(PLACES, features=MappingProxyType({IMAGE_FEATURES: 1})),)),
    }
)
"""Model type -> its token types, where they are others: PaliGemma tells the prompt from what the model writes."""


@frozen
class Placeholders:
    """The rules by which tokens and features become one sequence.

    `tokens`: from the name of features to the id of the token that stands for one row of them. `merge_size`: how many
    patches in height, and in width, become one token, and `newlines` how many tokens follow each row of these.
    `special`: ids of all tokens that the configuration names. `padding`: its id, where a model counts no tokens with
    that id; None: any token may be padding. `starts`: from the name of features to the id of the token before them.
    """

    tokens: Mapping[str, int] = field(factory=dict)
    first_position: int = 0
    merge_size: int = 1
    newlines: int = 0
    types: tuple[TokenTypes, ...] = TOKEN_TYPES
    special: frozenset[int] = frozenset()
    padding: int | None = None
    starts: Mapping[str, int] = field(factory=dict)


def placeholders(config: Mapping[str, Any]) -> Placeholders:
    """The placeholder tokens of a configuration, which is a plain dict."""
    values = dict(_values(config))
    tokens = {name: values[key] for name, keys in PLACEHOLDER_KEYS.items() for key in reversed(keys) if key in values}
    special = {value for key, value in values.items() if str(key).endswith(("_token_id", "_token_index", "_patch_id"))}
    merge_size = next((values[key] for key in MERGE_KEYS if key in values), 1)
    model_type = str(config.get("model_type"))
    counts_from_padding = model_type in COUNT_FROM_PADDING
    if counts_from_padding:  # the model does not read the token in a marked place, so any token may stand there
        tokens = {IMAGE_FEATURES: values["eos_token_id"]} if "eos_token_id" in values else {}
    padding = values.get("pad_token_id") if counts_from_padding else None
    # transformers.js counts likewise
    first = {"paligemma": 1, "gemma3": 1}.get(model_type, 0) if padding is None else padding + 1
    types = OTHER_TOKEN_TYPES.get(model_type, TOKEN_TYPES)
    start = values.get("vision_start_token_id")  # the token before an image, by which Qwen2.5-Omni counts the images
    starts = {} if start is None else {IMAGE_FEATURES: start}
    newlines = int(model_type == "hy_v4_vl")  # a token more after each row of merged patches
    return Placeholders(tokens, first, merge_size, newlines, types, frozenset(special), padding, starts)


def with_placeholders(arguments: Mapping[str, Array], known: Placeholders) -> dict[str, Array]:
    """The arguments of `forward` with the placeholder token in the places that one of them marks."""
    if PLACES not in arguments:
        return {**arguments}
    ids, token = arguments["input_ids"], placeholder_of(IMAGE_FEATURES, known)
    return {**arguments, "input_ids": np.where(arguments[PLACES].astype(bool), token, ids)}


def placeholder_of(name: str, known: Placeholders) -> int:
    """The placeholder token of features. InvalidSpec if the configuration has none."""
    if name not in known.tokens:
        keys = listed(PLACEHOLDER_KEYS.get(name, ()))
        raise InvalidSpec(f"config.json names no placeholder token for {name}; it is one of the keys {keys}")
    return known.tokens[name]


def _values(config: Mapping[str, Any]) -> list[tuple[str, int]]:
    """The whole numbers in a configuration and in its sections by key; those of the outermost section are the last."""
    inner = [each for section in config.values() if isinstance(section, Mapping) for each in _values(section)]
    own = [(key, value) for key, value in config.items() if isinstance(value, int) and not isinstance(value, bool)]
    merges = [(key, config[key][0]) for key in MERGE_KEYS if isinstance(config.get(key), list | tuple)]
    return [*inner, *own, *merges]

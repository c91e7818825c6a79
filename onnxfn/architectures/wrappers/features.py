"""The parts of a model that sees or hears and writes: images and sounds to features, tokens to embeddings."""

from collections import UserList
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from onnxfn.architectures.placeholders import placeholders
from onnxfn.architectures.wrappers.feature_methods import feature_method
from onnxfn.architectures.wrappers.layer_inputs import LAYER_INPUTS, decoder_inputs, layered_decoder
from onnxfn.architectures.wrappers.modules import module
from onnxfn.architectures.wrappers.wide_rows import widened, width_of
from onnxfn.specs.algebra.config_values import snapshot
from onnxfn.specs.errors import InvalidSpec


def image_features(model: Any) -> Any:
    """Images -> the rows that stand in place of image tokens: `{"image_features": ...}`."""
    return _features(model, "image_features")


def whole_image_features(model: Any) -> Any:
    """Images without padding -> features. The tower gets the size of the tensor as the size of each image."""
    tower = image_features(model)

    def forward(pixel_values: Tensor) -> dict[str, Tensor]:
        count, _, *size = pixel_values.shape
        sizes: Any = UserList([tuple(size)] * count)
        sizes.tolist = lambda: sizes.data  # Apertus expects a tensor
        return tower(pixel_values=pixel_values, image_sizes=sizes)  # type: ignore[no-any-return]

    return module(forward)


def whole_sound_features(model: Any) -> Any:
    """Sounds without padding -> features. The tower gets a mask of ones."""
    tower = audio_features(model)

    def forward(input_values: Tensor) -> dict[str, Tensor]:
        mask = torch.ones_like(input_values, dtype=torch.int64)
        return tower(input_values=input_values, padding_mask=mask)  # type: ignore[no-any-return]

    return module(forward)


def audio_features(model: Any) -> Any:
    """Sounds -> the rows that stand in place of audio tokens: `{"audio_features": ...}`."""
    return _features(model, "audio_features")


def token_embeddings(model: Any) -> Any:
    """Tokens -> embeddings, and in some models inputs of layers.

    A placeholder token beyond the table has the embedding of token 0: a feature replaces its row.
    """
    width, is_layered = width_of(model), layered_decoder(model) is not None
    tokens = placeholders(snapshot(model)).tokens.values()

    def forward(input_ids: Tensor) -> dict[str, Tensor]:
        if is_layered:
            rows, of_layers = decoder_inputs(model, input_ids)
            return {"inputs_embeds": widened(rows, width, [], 0.0), LAYER_INPUTS: of_layers}
        table = model.get_input_embeddings()
        for token in {each for each in tokens if each >= getattr(table, "num_embeddings", each + 1)}:
            input_ids = torch.where(input_ids == token, 0, input_ids)
        return {"inputs_embeds": widened(table(input_ids), width, [], 0.0)}

    return module(forward)


def _features(model: Any, output: str) -> Any:
    method = feature_method(model, f"get_{output}")
    if method is None:
        raise InvalidSpec(f"{type(model).__name__} has no get_{output}, so no graph computes its {output}")

    width, mark = width_of(model), 1.0 if output == "image_features" else 0.0

    @wraps(method)
    def forward(**inputs: Any) -> dict[str, Tensor]:
        result = method(**inputs, return_dict=True)
        deep = [_joined(each) for each in getattr(result, "deepstack_features", None) or ()]
        return {output: widened(_joined(result), width, deep, mark)}

    tower = module(forward)
    tower.config = model.config
    return tower


def _joined(result: Any) -> Tensor:
    """The features of a result, of all images: `[tokens, width]`, without the rows of padding."""
    features = getattr(result, "pooler_output", result)
    if features is None:
        features = result.last_hidden_state
    if (mask := getattr(result, "attention_mask", None)) is not None and features.ndim > mask.ndim:
        return features[mask.bool()]
    if not isinstance(features, (list, tuple)):
        return features
    rows = [each.reshape(-1, each.shape[-1]) for each in map(_joined, features)]
    return rows[0] if len(rows) == 1 else torch.cat(rows)

"""Features among the embeddings of tokens, and positions in three axes as transformers computes them."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from refusals import refusal
from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VLModel

from onnxfn.run.merged_embeddings import merged_embeddings, mrope_positions
from onnxfn.specs.errors import InvalidSpec

IMAGE, SOUND = 9, 8


def rows(count, width=2):
    return np.arange(1, count * width + 1, dtype=np.float32).reshape(count, width)


def test_rows_stand_in_the_places_of_their_tokens_in_the_order_of_the_texts_and_embeddings_are_left_as_they_are():
    ids, embeddings = np.array([[1, IMAGE, SOUND], [IMAGE, 1, IMAGE]]), np.zeros((2, 3, 2), np.float32)
    merged = merged_embeddings(embeddings, ids, {IMAGE: rows(3), SOUND: -rows(1)})
    assert np.array_equal(merged[ids == IMAGE], rows(3))
    assert np.array_equal(merged[ids == SOUND], -rows(1))
    assert (merged[ids == 1] == 0).all()
    assert (embeddings == 0).all()


@pytest.mark.parametrize("count", [0, 1, 3])
def test_another_number_of_rows_than_of_tokens_is_refused_with_both(count):
    ids = np.array([[IMAGE, 1, IMAGE]])
    said = refusal(InvalidSpec, merged_embeddings, np.zeros((1, 3, 2)), ids, {IMAGE: rows(count)})
    assert f"{count} rows of features for 2 placeholder tokens (id {IMAGE})" in said


def test_features_of_another_width_are_refused():
    said = refusal(InvalidSpec, merged_embeddings, np.zeros((1, 1, 3)), np.array([[IMAGE]]), {IMAGE: rows(1)})
    assert "width 2" in said
    assert "width 3" in said


TEXTS = {
    "one image": ([[1, 2, *[IMAGE] * 4, 3]], [[1, 4, 4]]),
    "a wide and a tall image": ([[1, *[IMAGE] * 8, 2, 3, *[IMAGE] * 6, 4, 5]], [[1, 4, 8], [1, 6, 4]]),
    "an image at the beginning": ([[*[IMAGE] * 2, 1, 2]], [[1, 2, 4]]),
    "a text alone": ([[1, 2, 3]], []),
    "left-padded texts": ([[1, *[IMAGE] * 6, 2, 3], [0, 0, 0, 0, 1, *[IMAGE] * 2, 3, 4]], [[1, 6, 4], [1, 2, 4]]),
}


@pytest.mark.parametrize(("texts", "grids"), TEXTS.values(), ids=TEXTS)
def test_positions_in_three_axes_are_those_of_transformers(texts, grids):
    ids = np.array(texts)
    mask = (ids != 0).astype(np.int64)
    positions = mrope_positions(mask, ids, {IMAGE: np.array(grids)}, merge_size=2)
    model = SimpleNamespace(config=SimpleNamespace(vision_config=SimpleNamespace(spatial_merge_size=2)))
    model.get_vision_position_ids = Qwen2VLModel.get_vision_position_ids.__get__(model)
    given = (torch.tensor(ids == IMAGE).int(), torch.tensor(grids) if grids else None)
    found = Qwen2VLModel.get_rope_index(model, torch.tensor(ids), *given, attention_mask=torch.tensor(mask))
    expected, deltas = (each.numpy() for each in found)
    assert np.array_equal(positions * mask, expected * mask)
    longer = np.concatenate([mask, np.ones((len(mask), 3), np.int64)], axis=1)
    later = mrope_positions(longer, ids, {IMAGE: np.array(grids)}, merge_size=2)[..., -3:]
    assert np.array_equal(later, np.broadcast_to(np.arange(3) + mask.sum(axis=1, keepdims=True) + deltas, later.shape))


def test_positions_of_images_whose_rows_end_with_a_token_more_are_those_of_transformers():
    """Hy V4 VL (transformers 5.24)."""
    own = pytest.importorskip("transformers.models.hy_v4_vl.modeling_hy_v4_vl").HYV4VLModel
    grids = [[1, 4, 8], [1, 6, 4]]
    ids = np.array([[1, 2, *[IMAGE] * 10, 3, 4], [0, 1, *[IMAGE] * 9, 3, 4, 5]])
    mask = (ids != 0).astype(np.int64)
    positions = mrope_positions(mask, ids, {IMAGE: np.array(grids)}, merge_size=2, newlines=1)
    model = SimpleNamespace(config=SimpleNamespace(vision_config=SimpleNamespace(spatial_merge_size=2)))
    model.get_vision_position_ids = own.get_vision_position_ids.__get__(model)
    given = (torch.tensor(ids), torch.tensor(ids == IMAGE).int(), torch.tensor(grids))
    expected, _ = own.get_rope_index(model, *given, attention_mask=torch.tensor(mask))
    assert np.array_equal(positions * mask, expected.numpy() * mask)


def test_more_tokens_of_images_than_their_grids_have_is_refused():
    """As of a model that ends each row of an image with a token more."""
    ids, grids = np.array([[IMAGE] * 3]), {IMAGE: np.array([[1, 2, 4]])}
    assert "more tokens of images" in refusal(InvalidSpec, mrope_positions, np.ones((1, 3)), ids, grids, merge_size=2)

"""Janus in the parts of transformers.js: it writes texts about images, and draws images, as PyTorch does."""

from pathlib import Path

import every_part
import numpy as np
import onnxruntime as ort
import pytest
import torch
from agreement import assert_agreement
from session_outputs import outputs_of

import onnxfn

TASK = "any-to-any-with-past"
FILES = ("prepare_inputs_embeds", "language_model", "lm_head", "gen_head", "gen_img_embeds", "image_decode")
START, IMAGE_START, PADDING = 1, 5, 0
GUIDANCE = 5.0
SIDE = 32
NO_IMAGE = np.zeros((0, 0, 3, SIDE, SIDE), np.float32)


@pytest.fixture(scope="module")
def model():
    return every_part.tiny_model("janus", TASK)


@pytest.fixture(scope="module")
def result(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("janus") / "out"
    return assert_agreement(onnxfn.export(onnxfn.spec_for(model, TASK), model, folder))


@pytest.fixture(scope="module")
def sessions(result):
    return {name: ort.InferenceSession(Path(result.path) / f"{name}.onnx") for name in FILES}


def prepared(sessions, ids, pixels, token):
    """The embeddings of tokens and images `[texts, images, channels, height, width]`, as the client asks for them."""
    feeds = {"input_ids": ids, "pixel_values": pixels, "images_seq_mask": ids == token}
    return outputs_of(sessions["prepare_inputs_embeds"], feeds)["inputs_embeds"]


def states(sessions, embeddings, mask, past):
    count, length = embeddings.shape[:2]
    positions = np.maximum(mask.cumsum(1) - 1, 0)[:, -length:]
    feeds = {"inputs_embeds": embeddings, "attention_mask": mask, "position_ids": positions}
    for each in sessions["language_model"].get_inputs():
        if each.name.startswith("past_key_values"):
            empty = np.zeros((count, each.shape[1], 0, each.shape[3]), np.float32)
            feeds[each.name] = past.get(each.name.replace("past_key_values", "present"), empty)
    outputs = outputs_of(sessions["language_model"], feeds)
    return outputs["last_hidden_state"], outputs


def test_the_files_are_those_that_transformers_js_loads(result):
    assert tuple(part.name for part in result.plan.parts) == FILES
    assert [*result.plan["prepare_inputs_embeds"].inputs] == ["input_ids", "pixel_values", "images_seq_mask"]
    assert [*result.plan["gen_img_embeds"].inputs] == ["image_ids"]
    assert [*result.plan["image_decode"].inputs] == ["generated_tokens"]
    assert [*result.plan["image_decode"].outputs] == ["decoded_image"]


@pytest.mark.parametrize("images", [0, 1, 2])
def test_the_text_after_images_has_the_logits_of_pytorch(model, sessions, images):
    token, rows = model.config.image_token_id, (SIDE // 8) ** 2
    ids = np.array([[7, *[token] * rows * images, 8, 9]])
    pixels = np.random.default_rng(0).standard_normal((1, images, 3, SIDE, SIDE), dtype=np.float32)
    hidden, _ = states(sessions, prepared(sessions, ids, pixels if images else NO_IMAGE, token), np.ones_like(ids), {})
    actual = outputs_of(sessions["lm_head"], {"last_hidden_state": hidden})["logits"]
    seen = {"pixel_values": torch.from_numpy(pixels[0])} if images else {}
    with torch.no_grad():
        expected = model(input_ids=torch.from_numpy(ids), **seen).logits.numpy()
    np.testing.assert_allclose(actual, expected, atol=2e-5)


def test_an_image_is_drawn_as_pytorch_draws_it(model, sessions):
    ids = np.array([[START, 7, 8, IMAGE_START]])
    model.generation_config.update(bos_token_id=START, pad_token_id=PADDING, guidance_scale=GUIDANCE)
    model.generation_config.generation_kwargs = {"boi_token_id": IMAGE_START}
    mask = torch.ones((1, ids.shape[1]), dtype=torch.int64)
    expected = model.generate(torch.from_numpy(ids), mask, generation_mode="image", do_sample=False).numpy()
    codes = drawn_codes(model, sessions, ids)
    assert codes.tolist() == expected.tolist()
    assert len({*codes[0].tolist()}) > 1
    with torch.no_grad():
        pixels = model.decode_image_tokens(torch.from_numpy(codes)).numpy()
    image = outputs_of(sessions["image_decode"], {"generated_tokens": codes})["decoded_image"]
    np.testing.assert_allclose(image, pixels.transpose(0, 3, 1, 2), atol=2e-5)


def drawn_codes(model, sessions, ids):
    """The codes of an image, greedily: for each step the logits with the text, guided away from those without it."""
    plain = np.where((ids == START) | (ids == IMAGE_START), ids, PADDING)
    mask, past = np.ones((2, ids.shape[1]), np.int64), {}
    embeddings, codes = prepared(sessions, np.concatenate([ids, plain]), NO_IMAGE, -1), []
    for _ in range(model.config.vision_config.num_image_tokens):
        hidden, past = states(sessions, embeddings, mask, past)
        told, untold = outputs_of(sessions["gen_head"], {"last_hidden_state": hidden})["logits"][:, -1]
        codes.append(int(np.argmax(untold + GUIDANCE * (told - untold))))
        embeddings = outputs_of(sessions["gen_img_embeds"], {"image_ids": np.array([[codes[-1]]] * 2)})["inputs_embeds"]
        mask = np.concatenate([mask, np.ones((2, 1), np.int64)], axis=1)
    return np.array([codes])

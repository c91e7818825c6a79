"""transformers.js and onnxruntime-genai write PyTorch's tokens for models that see or hear, from folders as written."""

from __future__ import annotations

import json

import numpy as np
import pytest
from multimodal import HEARS, TASKS, WRITING, client_arguments, prompts, sight, written
from pairs import tensor
from running import client_process, run_client

pytestmark = pytest.mark.clients

CLASSES = {HEARS: ["AutoModelForAudioTextToText"]}
SIGHT_CLASSES = ["AutoModelForImageTextToText"]


@pytest.fixture(scope="session")
def program():
    """One process of Node.js for all models."""
    with client_process("transformers.js") as answered:
        yield answered


@pytest.mark.parametrize("model_type", TASKS)
def test_a_model_that_sees_or_hears_writes_the_tokens_of_pytorch(model_type, program, tmp_path, note):
    note({"client": "transformers.js", "kind": TASKS[model_type].removesuffix("-with-past"), "case": model_type})
    model = sight(model_type, tmp_path)
    classes = CLASSES.get(TASKS[model_type], SIGHT_CLASSES)
    job = {"folder": str(model.folder), "classes": classes, "options": WRITING}
    for prompt in prompts(model):
        feeds = {name: tensor(array) for name, array in client_arguments(model, prompt).items()}
        given = program({**job, "feeds": feeds})["result"]
        tokens = np.reshape(given["data"], given["dims"])[:, -WRITING["max_new_tokens"] :]
        assert tokens.tolist() == written(model, prompt).tolist(), prompt.case
    assert remarks(model.folder, "transformers.js") == []


def remarks(folder, client):
    """What the plan of an export says against a client."""
    return [line for line in json.loads((folder / "report.json").read_text())["remarks"] if line.startswith(client)]


@pytest.mark.parametrize("model_type", ["qwen2_5_vl", "qwen3_vl", "qwen3_5", "qwen3_5_moe"])
def test_onnxruntime_genai_writes_the_tokens_of_pytorch(model_type, tmp_path, note):
    note({"client": "genai", "kind": TASKS[model_type].removesuffix("-with-past"), "case": model_type})
    model = sight(model_type, tmp_path)
    job = {"folder": str(model.folder), "count": WRITING["max_new_tokens"]}
    for prompt in prompts(model):
        feeds = {name: tensor(np.asarray(array)) for name, array in prompt.arguments.items()}
        given = run_client("genai", {**job, "feeds": feeds, "placeholder": model.known.tokens["image_features"]})
        assert given["result"] == written(model, prompt).tolist(), prompt.case
    assert remarks(model.folder, "onnxruntime-genai") == []

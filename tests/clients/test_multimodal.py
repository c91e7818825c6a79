"""transformers.js and onnxruntime-genai write PyTorch's tokens for models that see or hear, from folders as written."""

import json

import client_results
import numpy as np
import pytest
from multimodal import HEARS, REFUSED, TASKS, WRITING, client_arguments, images, prompts, sight, written
from pairs import tensors
from running import ClientError, run_client

pytestmark = pytest.mark.clients

CLIENT = "transformers.js"
CLASSES = {HEARS: ["AutoModelForAudioTextToText"]}
LONG = 1024
"""The length that a text may have. Tiny models state shorter texts than those with several images."""

SIGHT_CLASSES = ["AutoModelForImageTextToText"]


@pytest.mark.parametrize("model_type", [model_type for model_type in TASKS if model_type not in REFUSED])
def test_a_model_that_sees_or_hears_writes_the_tokens_of_pytorch(model_type, program, tmp_path, note):
    note(case_of(model_type))
    model = sight(model_type, tmp_path)
    for prompt in prompts(model):
        given = program(job(model, prompt))["result"]
        tokens = np.reshape(given["data"], given["dims"])[:, -WRITING["max_new_tokens"] :]
        assert tokens.tolist() == written(model, prompt).tolist(), prompt.case
    assert remarks(model.folder, CLIENT) == []


@pytest.mark.parametrize("model_type", REFUSED)
def test_the_plan_says_why_the_client_cannot_run_a_model(model_type, program, tmp_path, request):
    if request.config.getoption("--record"):
        client_results.record(**case_of(model_type), line=client_results.line_of({}, REFUSED[model_type]))
    model = sight(model_type, tmp_path)
    assert remarks(model.folder, CLIENT) == [REFUSED[model_type]]
    prompt = next(each for each in prompts(model) if len(images(each)))
    with pytest.raises(ClientError, match="Missing the following inputs: image_sizes"):
        program(job(model, prompt))


def case_of(model_type):
    """The place of a type in the results."""
    return {"client": CLIENT, "kind": TASKS[model_type].removesuffix("-with-past"), "case": model_type}


def job(model, prompt):
    classes = CLASSES.get(TASKS[model.model.config.model_type], SIGHT_CLASSES)
    feeds = tensors(client_arguments(model, prompt))
    return {"folder": str(model.folder), "classes": classes, "options": WRITING, "feeds": feeds}


def remarks(folder, client):
    return [line for line in json.loads((folder / "report.json").read_text())["remarks"] if line.startswith(client)]


@pytest.mark.parametrize("model_type", ["qwen2_5_vl", "qwen3_vl", "qwen3_5", "qwen3_5_moe", "mistral3"])
def test_onnxruntime_genai_writes_the_tokens_of_pytorch(model_type, tmp_path, note):
    note({**case_of(model_type), "client": "genai"})
    model = sight(model_type, tmp_path)
    texts = [(prompt, written(model, prompt).tolist()) for prompt in prompts(model)]
    # genai needs a token that ends a text: one that none of these texts has.
    end = next(token for token in range(LONG) if all(token not in row for _, rows in texts for row in rows))
    known = {"placeholder": model.known.tokens["image_features"]}
    overlay = {"model": {"context_length": LONG, "eos_token_id": end}}
    with_images = {"folder": str(model.folder), "count": WRITING["max_new_tokens"], "overlay": overlay, **known}
    for prompt, expected in texts:
        feeds = tensors(prompt.arguments)
        given = run_client("genai", {**with_images, "feeds": feeds})
        assert given["result"] == expected, prompt.case
    assert remarks(model.folder, "onnxruntime-genai") == []

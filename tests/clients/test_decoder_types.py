"""Every decoder type in the clients that know it: tiny models, greedy, the tokens of PyTorch.

`python -m pytest -m clients_sweep --record --left tests/clients/test_decoder_types.py` goes on where it stopped.
"""

from __future__ import annotations

import json
import shutil
from functools import cache
from subprocess import TimeoutExpired

import client_results
import pytest
from client_environments import installed_folder
from exporting import exported, reference
from running import ClientError, run_client

from onnxfn.architectures import decoders
from onnxfn.specs.tasks import task_names

TASK = "text-generation-with-past"
DECODERS = [name for name, row in decoders.ROWS.items() if name != "internlm2" and TASK in task_names(row)]
CLIENTS = ("transformers.js", "genai")
IDS = [3, 17, 45, 9, 22, 64, 5, 31]
COUNT = 12
FLAGS = ("--no-check",)
"""What the clients write is the check."""

KIND = client_results.DECODER_TYPES


@pytest.mark.clients_sweep
@pytest.mark.parametrize("model_type", DECODERS)
def test_a_decoder_type_writes_the_tokens_of_pytorch(model_type, tmp_path, request):
    left = [name for name in CLIENTS if knows(name, model_type) and not has_result(request, name, model_type)]
    if not left:
        pytest.skip("each client has a result of this type, or does not know it")
    lines = lines_of(model_type, left, tmp_path)
    if request.config.getoption("--record"):
        for name, text in lines.items():
            client_results.record(name, KIND, model_type, text)
    shutil.rmtree(tmp_path)
    wrong = {name: text for name, text in lines.items() if text.startswith(client_results.NOT)}
    assert not wrong


def has_result(request, client, model_type):
    """With `--left`, whether a client has a recorded result of a type."""
    seen = client_results.recorded().get(client, {}).get("results", {}).get(KIND, {})
    return request.config.getoption("--left") and model_type in seen


def lines_of(model_type, clients, root):
    """The line of each client for a type."""
    try:
        folder = exported(root, model_type, TASK, FLAGS)
        expected = written_tokens(reference(root, model_type, folder))
    except Exception as error:  # noqa: BLE001 - no client has run, and the next type is to be tried
        return dict.fromkeys(clients, client_results.line_of({}, f"no client has run: {shortened(error)}"))
    return {name: line(name, folder, expected) for name in clients}


def shortened(error):
    """The last line of an error, shortened."""
    return str(error).strip().splitlines()[-1][:200]


def line(client, folder, expected):
    """The line of a client: whether it writes the tokens."""
    try:
        given = run_client(client, job(folder))["result"]
    except (ClientError, TimeoutExpired) as error:
        return client_results.line_of({}, shortened(error).replace(f"{folder}/", ""))
    same = until_end(given, folder) == until_end(expected, folder)
    return client_results.line_of({}, "" if same else f"tokens {given}, PyTorch's {expected}")


def job(folder):
    """A job of either client: tokens in, tokens out."""
    options = {"max_new_tokens": COUNT, "do_sample": False}
    return {"folder": str(folder), "ids": IDS, "count": COUNT, "options": options}


def written_tokens(reference):
    """The tokens that PyTorch adds, the likeliest each time."""
    import torch

    ids = torch.tensor([IDS])
    mask = torch.ones_like(ids)
    written = reference.model.generate(ids, attention_mask=mask, do_sample=False, max_new_tokens=COUNT)
    return written[0, len(IDS) :].tolist()


def until_end(tokens, folder):
    """Tokens before the first that ends a text: clients differ in whether they give it."""
    file = folder / "generation_config.json"
    end = json.loads(file.read_text()).get("eos_token_id") if file.is_file() else None
    ends = end if isinstance(end, list) else [end]
    return tokens[: next((index for index, token in enumerate(tokens) if token in ends), len(tokens))]


def knows(client, model_type):
    """Whether a client knows a type. genai is tried with all."""
    return client != "transformers.js" or model_type in known_types()


@cache
def known_types():
    """The decoder types that transformers.js knows, read from its table."""
    packages = installed_folder("transformers.js")
    source = (packages / "node_modules/@huggingface/transformers/src/models/registry.js").read_text()
    table = source.partition("export const MODEL_FOR_CAUSAL_LM_MAPPING_NAMES = ")[2].partition("\n]);")[0]
    return frozenset(row.split("'")[1] for row in table.splitlines() if row.strip().startswith("['"))

"""Every decoder type in the clients that know it: tiny models, greedy, the tokens of PyTorch."""

import json
import shutil
from functools import cache
from subprocess import TimeoutExpired

import client_results
import pytest
from checkpoints import ALONE
from client_environments import installed_folder
from exporting import exported, reference
from pytorch_results import new_tokens
from running import ClientError, run_client

from onnxfn.architectures import decoders, seq2seq
from onnxfn.export.clients import genai, transformers_js
from onnxfn.specs.tasks.tasks import task_names

TASK = "text-generation-with-past"
ROWS = {**decoders.ROWS, **seq2seq.ROWS}
TYPES = [name for name, row in ROWS.items() if name != "internlm2" and TASK in task_names(row)]
"""The decoders that transformers has, and the decoders of encoder-decoders."""

NAMES = {"transformers.js": transformers_js.NAME, "genai": genai.NAME}
"""The clients, with their names in the remarks of a plan."""

CLIENTS = tuple(NAMES)
IDS = [3, 17, 45, 9, 22, 64, 5, 31]
COUNT = 12
FLAGS = ("--no-check",)
"""What the clients write is the check."""

KIND = client_results.DECODER_TYPES


@pytest.mark.clients_sweep
@pytest.mark.parametrize("model_type", TYPES)
def test_a_client_writes_the_tokens_of_pytorch_or_the_plan_says_why_not(model_type, tmp_path, request):
    left = [name for name in CLIENTS if knows(name, model_type)]
    if request.config.getoption("--left"):
        left = [name for name in left if not client_results.has_result(name, KIND, model_type)]
    if not left:
        pytest.skip("each client has a result of this type, or does not know it")
    outcomes = outcomes_of(model_type, left, tmp_path)
    if request.config.getoption("--record"):
        for name, (error, limit) in outcomes.items():
            client_results.record(name, KIND, model_type, client_results.line_of({}, error and (limit or error)))
    shutil.rmtree(tmp_path)
    assert {name: error for name, (error, limit) in outcomes.items() if error and not limit} == {}
    assert {name: limit for name, (error, limit) in outcomes.items() if limit and not error} == {}


def outcomes_of(model_type, clients, root):
    """For each client, what is wrong with what it gives, and what the plan says against it; "" for nothing."""
    try:
        name = model_type if model_type in decoders.ROWS else model_type + ALONE
        folder = exported(root, name, TASK, FLAGS)
        expected = written_tokens(reference(root, name, folder).model)
    except Exception as error:  # noqa: BLE001 - no client has run, and the next type is to be tried
        return dict.fromkeys(clients, (f"no client has run: {client_results.shortened(error)}", ""))
    remarks = json.loads((folder / "report.json").read_text())["remarks"]
    limits = {each: next((line for line in remarks if line.startswith(NAMES[each])), "") for each in clients}
    return {each: (error_of(each, folder, expected), limits[each]) for each in clients}


def error_of(client, folder, expected):
    try:
        given = run_client(client, job(folder))["result"]
    except (ClientError, TimeoutExpired) as error:
        return client_results.shortened(error).replace(f"{folder}/", "")
    same = until_end(given, folder) == until_end(expected, folder)
    return "" if same else f"tokens {given}, PyTorch's {expected}"


def job(folder):
    options = {"max_new_tokens": COUNT, "do_sample": False}
    return {"folder": str(folder), "ids": IDS, "count": COUNT, "options": options}


def written_tokens(model):
    model.generation_config.forced_eos_token_id = None
    return new_tokens(model, IDS, COUNT)


def until_end(tokens, folder):
    file = folder / "generation_config.json"
    end = json.loads(file.read_text()).get("eos_token_id") if file.is_file() else None
    ends = end if isinstance(end, list) else [end]
    return tokens[: next((index for index, token in enumerate(tokens) if token in ends), len(tokens))]


def knows(client, model_type):
    """Whether a client knows a type. genai is tried with all."""
    return client != "transformers.js" or model_type in known_types()


@cache
def known_types():
    packages = installed_folder("transformers.js")
    source = (packages / "node_modules/@huggingface/transformers/src/models/registry.js").read_text()
    table = source.partition("export const MODEL_FOR_CAUSAL_LM_MAPPING_NAMES = ")[2].partition("\n]);")[0]
    return frozenset(row.split("'")[1] for row in table.splitlines() if row.strip().startswith("['"))

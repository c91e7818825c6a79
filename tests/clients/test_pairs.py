"""Every pair of a model type and a task beyond decoders in transformers.js: tiny models, what PyTorch gives.

`python -m pytest -m clients_sweep --record --left tests/clients/test_pairs.py` goes on where it stopped.
"""

from __future__ import annotations

import shutil

import client_results
import numpy as np
import pytest
import torch
from comparing import largest_difference
from every_head import tiny_model
from exporting import export_folder
from pairs import WRITES, pairs, tensor
from running import ClientError, client_process

import onnxfn
from onnxfn.check.references import check_cases
from onnxfn.specs.dummies import dummies

FLAGS = ("--no-check",)
"""What the client gives is the check."""

WRITING = {"max_new_tokens": 8, "do_sample": False, "num_beams": 1}
TOLERANCE = 1e-4
CLIENT = "transformers.js"


@pytest.fixture(scope="session")
def program():
    """One process of Node.js for all pairs."""
    with client_process(CLIENT) as answered:
        yield answered


@pytest.mark.clients_sweep
@pytest.mark.parametrize("pair", pairs(), ids=lambda pair: f"{pair.kind} {pair.model_type}")
def test_a_pair_gives_what_pytorch_gives(pair, program, tmp_path, request):
    if request.config.getoption("--left") and has_result(pair):
        pytest.skip("the pair has a result")
    line = line_of(pair, program, tmp_path)
    if request.config.getoption("--record"):
        client_results.record(CLIENT, kind_of(pair), pair.model_type, line)
    shutil.rmtree(tmp_path)
    assert not line.startswith(client_results.NOT)


def has_result(pair):
    """Whether a pair has a recorded result."""
    kinds = client_results.recorded().get(CLIENT, {}).get("results", {})
    return pair.model_type in kinds.get(kind_of(pair), {})


def kind_of(pair):
    """The kind of a pair in the results."""
    return client_results.PAIRS + pair.kind


def line_of(pair, program, root):
    """The line of a pair."""
    try:
        difference = compared(pair, program, root)
    except (ClientError, AssertionError) as error:
        return client_results.line_of({}, shortened(error))
    except Exception as error:  # noqa: BLE001 - no client has run, and the next pair is to be tried
        return client_results.line_of({}, f"no client has run: {shortened(error)}")
    error = f"max abs diff {difference:.0e}" if difference > TOLERANCE else ""
    return client_results.line_of({"difference": difference}, error)


def shortened(error):
    """The last line of an error, shortened."""
    return (str(error).strip() or repr(error)).splitlines()[-1][:200]


def compared(pair, program, root):
    """The largest difference between what the client and PyTorch give for a pair."""
    torch.manual_seed(0)
    model = tiny_model(pair.model_type, pair.task).eval()
    model.save_pretrained(root / "checkpoint")
    folder = export_folder(root / "checkpoint", root / "export", pair.task, FLAGS)
    feeds = inputs_of(model, pair.task)
    job = {
        "folder": str(folder),
        "classes": pair.classes,
        "feeds": {name: tensor(each) for name, each in feeds.items()},
    }
    values = {name: torch.from_numpy(each) for name, each in feeds.items()}
    if pair.kind in WRITES and not (folder / "onnx" / "model.onnx").is_file():
        given = program({**job, "options": WRITING})["result"]["data"]
        written = model.generate(**values, **WRITING)[0].tolist()
        return largest_difference(given[len(given) - len(written) :], written)
    given, expected = program(job)["result"], model(**values)
    arrays = {name: array(expected[name]) for name in given if torch.is_tensor(expected.get(name))}
    assert arrays, f"outputs are {', '.join(given)}, PyTorch's {', '.join(expected)}"
    return largest_difference(given, arrays)


def array(given):
    """A tensor as the client gives it. Nothing stands for what JSON has no number for."""
    numbers = np.asarray(given.float()).flatten().tolist()
    return {"dims": list(given.shape), "data": [each if np.isfinite(each) else None for each in numbers]}


def inputs_of(model, task):
    """Inputs of the files of an export that no file gives, at sizes that are not traced."""
    planned = onnxfn.plan(onnxfn.spec_for(model, task), model.config)
    parts = [planned.parts[0], *(part for part in planned.parts[1:] if not part.spec.feedback)]
    given = {output.name for part in parts for output in part.spec.outputs}
    linked = given | {link.input for part in parts for link in part.spec.links}
    feeds = [dummies(check_cases(part)[0].spec, {}, seed=1) for part in reversed(parts)]
    return {name: each for every in feeds for name, each in every.items() if name not in linked}

"""Every decoder type in ORTModel: it writes PyTorch's tokens, or the plan says why not and Optimum's fails, too."""

import json
import shutil

import client_results
import pytest
import tiny
from exporting import exported, reference
from pytorch_results import new_tokens
from running import ClientError

from onnxfn.architectures import decoders
from onnxfn.export.clients.ort_model import KNOWN_TYPES
from onnxfn.specs.tasks.tasks import task_names

TASK = "text-generation-with-past"
TYPES = [name for name, row in decoders.ROWS.items() if name in KNOWN_TYPES and TASK in task_names(row)]
CLIENT, KIND = "optimum", client_results.DECODER_TYPES
IDS = [3, 17, 45, 9, 22, 64, 5, 31]
JOB = {"ids": IDS, "count": 12, "class": "ORTModelForCausalLM"}

FLAGS = {"--layout optimum": ("--layout=optimum",), "--expanded-cache": ("--expanded-cache",)}
"""What a remark names -> the flags with which ORTModel loads the folder.

The configuration of the first has no words for transformers.js; the second has the cache of transformers 4.
"""


@pytest.mark.clients_sweep
@pytest.mark.parametrize("model_type", TYPES)
def test_ort_model_writes_the_tokens_of_pytorch(model_type, program, tmp_path, request):
    if request.config.getoption("--left") and client_results.has_result(CLIENT, KIND, model_type):
        pytest.skip("the type has a result")
    folder, remarks, ours = outcome(program, tmp_path, model_type)
    flags = next((flags for name, flags in FLAGS.items() if ours and name in " ".join(remarks)), ())
    if flags:
        folder, remarks, ours = outcome(program, tmp_path, model_type, flags)
    own = ours and error_of(lambda: own_tokens(program, model_type, folder))
    shutil.rmtree(tmp_path)
    reason = remarks[0] if remarks else ours
    if request.config.getoption("--record"):
        line = client_results.line_of({"flags": flags}, ours and f"{reason}; Optimum's own folder: {own}")
        client_results.record(CLIENT, KIND, model_type, line)
    assert not ours or remarks, "no remark says why our folder does not work"
    assert not ours or own, "Optimum's own folder works"
    assert ours or not remarks, f"it works, and the plan says {remarks}"


def outcome(program, root, model_type, flags=()):
    """The folder of an export, what its plan says of ORTModel, and why that does not write PyTorch's tokens."""
    folder = exported(root, model_type, TASK, ("--no-check", *flags))
    remarks = [text for text in json.loads((folder / "report.json").read_text())["remarks"] if "ORTModel" in text]
    return folder, remarks, error_of(lambda: our_tokens(program, folder, reference(root, model_type, folder).model))


def error_of(two_results):
    """Why two lists of tokens are not equal, or cannot be had; empty if they are equal."""
    try:
        given, expected = two_results()
    except ClientError as error:
        return str(error).strip().splitlines()[0][:160]
    return "" if given == expected else f"tokens {given}, PyTorch's {expected}"


def our_tokens(program, folder, model):
    """The tokens of ORTModel with a folder of onnxfn, and those that PyTorch adds. None ends the text."""
    given = program({**JOB, "function": "tokens", "folder": str(folder)})["result"]
    model.generation_config.eos_token_id = None
    return given, new_tokens(model, IDS, JOB["count"])


def own_tokens(program, model_type, folder):
    """The tokens of ORTModel with the folder that Optimum writes, and PyTorch's, of the same tiny decoder."""
    sizes = {**tiny.SIZES, **tiny.SPECIAL.get(model_type, {})}
    known = [*json.loads((folder / "config.json").read_text())]
    job = {**JOB, "function": "own_folder", "model_type": model_type, "sizes": sizes, "known": known}
    given = program(job)["result"]
    return given["own"], given["pytorch"]

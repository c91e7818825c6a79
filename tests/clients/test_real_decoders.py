"""SmolLM2 in one folder: in float32 clients write PyTorch's text, in 4 bits the text of ONNX Runtime here."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from cases import TEXTS
from exporting import checkpoint_folder, exported, reference, tokenizer
from running import run_client
from test_genai import written_text

import onnxfn
from onnxfn.weights.layouts import dtype_suffix

pytestmark = pytest.mark.clients

COUNT = 12
TASK = "text-generation-with-past"
DTYPES = {"fp32": "float32", "q4": "q4", "q4f16": "q4f16"}
"""The dtypes of the folder; the keys are the words of transformers.js."""

FLAGS = tuple(f"--dtype={dtype}" for dtype in DTYPES.values())
OPTIONS = {"max_new_tokens": COUNT, "do_sample": False}


def pipeline_job(dtype: str) -> dict[str, Any]:
    """A job of transformers.js, which finds the file of a dtype by its name."""
    return {"pipeline": "text-generation", "dtype": dtype, "arguments": [TEXTS[0], OPTIONS]}


def genai_job(dtype: str) -> dict[str, Any]:
    """A job of onnxruntime-genai. Its configuration names the file of the first dtype; a caller may name another."""
    file = f"onnx/model{dtype_suffix(DTYPES[dtype])}.onnx"
    overlay = {} if dtype == "fp32" else {"overlay": {"model": {"decoder": {"filename": file}}}}
    return {"text": TEXTS[0], "count": COUNT, **overlay}


def ort_model_job(dtype: str) -> dict[str, Any]:
    """A job of ORTModel, which loads `onnx/model.onnx` unless a caller names a file."""
    named = {"subfolder": "onnx", "file_name": f"model{dtype_suffix(DTYPES[dtype])}.onnx"}
    load = {} if dtype == "fp32" else {"load": named}
    options = {"options": {"max_new_tokens": COUNT}, **load}
    return {"function": "text", "class": "ORTModelForCausalLM", "text": TEXTS[0], **options}


JOBS: Mapping[str, Callable[[str], dict[str, Any]]] = MappingProxyType(
    {"transformers.js": pipeline_job, "web": pipeline_job, "genai": genai_job, "optimum": ort_model_job}
)
"""The job of each client for a dtype."""

KINDS = {"genai": "text", "optimum": "ORTModelForCausalLM"}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("client", JOBS)
def test_all_clients_write_the_same_text_from_one_folder_of_smollm2(client, dtype, exports, note):
    kind = KINDS.get(client, "text-generation")
    note({"client": client, "kind": kind, "case": f"smollm2 {dtype}", "flags": FLAGS})
    folder = exported(exports, "smollm2", TASK, FLAGS)
    given = new_text(run_client(client, {"folder": str(folder), **JOBS[client](dtype)})["result"])
    assert given == expected_text(exports, folder, DTYPES[dtype])


def test_genai_writes_the_text_of_a_folder_in_4_bits(exports, note):
    note({"client": "genai", "kind": "text", "case": "smollm2 q4 alone", "flags": ("--dtype=q4",)})
    folder = exported(exports, "smollm2", TASK, ("--dtype=q4",))
    given = run_client("genai", {"folder": str(folder), "count": COUNT, "text": TEXTS[0]})["result"]
    assert given == expected_text(exports, folder, "q4")


def new_text(result):
    return result if isinstance(result, str) else result[0]["generated_text"].removeprefix(TEXTS[0])


def expected_text(exports, folder, dtype):
    """What PyTorch adds to the text; in 4 bits, what ONNX Runtime adds with the same file."""
    if dtype == "float32":
        return written_text(reference(exports, "smollm2", folder, "AutoModelForCausalLM"), {"text": TEXTS[0]})
    tokens = tokenizer(checkpoint_folder(exports, "smollm2"))
    ids = tokens(TEXTS[0], return_tensors="np")["input_ids"].astype(np.int64)
    written = onnxfn.generate(folder, ids, max_new_tokens=COUNT, dtype=dtype)[0, ids.shape[1] :]
    return tokens.decode(written, skip_special_tokens=True)

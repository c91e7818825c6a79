"""SmolLM2 in one folder: in float32 clients write PyTorch's text, in 4 bits the text of ONNX Runtime here."""

from __future__ import annotations

import numpy as np
import pytest
from cases import TEXTS
from exporting import checkpoint_folder, exported, reference, tokenizer
from running import run_client
from test_genai import written_text

import onnxfn

pytestmark = pytest.mark.clients

COUNT = 12
TASK = "text-generation-with-past"
DTYPES = {"fp32": "float32", "q4": "q4", "q4f16": "q4f16"}
FLAGS = tuple(f"--dtype={dtype}" for dtype in DTYPES.values())
OPTIONS = {"max_new_tokens": COUNT, "do_sample": False}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("client", ["transformers.js", "web"])
def test_smollm2_writes_the_same_text(client, dtype, exports, note):
    note({"client": client, "kind": "text-generation", "case": f"smollm2 {dtype}", "flags": FLAGS})
    folder = exported(exports, "smollm2", TASK, FLAGS)
    job = {"folder": str(folder), "pipeline": "text-generation", "dtype": dtype, "arguments": [TEXTS[0], OPTIONS]}
    (given,) = run_client(client, job)["result"]
    assert given["generated_text"] == TEXTS[0] + expected_text(exports, folder, DTYPES[dtype])


def test_genai_writes_the_text_of_a_folder_in_4_bits(exports, note):
    note({"client": "genai", "kind": "text", "case": "smollm2 q4", "flags": ("--dtype=q4",)})
    folder = exported(exports, "smollm2", TASK, ("--dtype=q4",))
    given = run_client("genai", {"folder": str(folder), "count": COUNT, "text": TEXTS[0]})["result"]
    assert given == expected_text(exports, folder, "q4")


def expected_text(exports, folder, dtype):
    """What PyTorch adds to the text; in 4 bits, what ONNX Runtime adds with the same file."""
    if dtype == "float32":
        return written_text(reference(exports, "smollm2", folder, "AutoModelForCausalLM"), {"text": TEXTS[0]})
    tokens = tokenizer(checkpoint_folder(exports, "smollm2"))
    ids = tokens(TEXTS[0], return_tensors="np")["input_ids"].astype(np.int64)
    written = onnxfn.generate(folder, ids, max_new_tokens=COUNT, dtype=dtype)[0, ids.shape[1] :]
    return tokens.decode(written, skip_special_tokens=True)

"""The web build of transformers.js in headless Chromium, and Node.js, give what PyTorch gives for each dtype."""

import pytest
from cases import FEW, POOLED, TEXTS, Case
from exporting import exported, reference
from pytorch_results import RESULTS
from running import run_client

pytestmark = pytest.mark.clients

DTYPES = tuple(f"--dtype={dtype}" for dtype in ("float32", "float16", "q8"))
HALF = ("--dtype=float16",)
CASES = (
    Case("feature-extraction", "minilm", "feature-extraction", [TEXTS, POOLED], DTYPES),
    Case("feature-extraction", "minilm", "feature-extraction", [TEXTS, POOLED], DTYPES, dtype="fp16", tolerance=2e-3),
    Case("feature-extraction", "minilm", "feature-extraction", [TEXTS, POOLED], DTYPES, dtype="q8", tolerance=0.06),
    Case("text-classification", "bert classes", "text-classification", [TEXTS[0]], HALF, dtype="fp16", tolerance=2e-3),
    Case("text-generation", "llama", "text-generation-with-past", [TEXTS[0], FEW]),
)


@pytest.mark.parametrize("client", ["transformers.js", "web"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_dtype_gives_what_pytorch_gives(client, case, exports, note, assert_close):
    note({"client": client, "kind": case.kind, "case": case.label, "flags": case.flags})
    folder = exported(exports, case.checkpoint, case.task, case.flags)
    job = {"folder": str(folder), "pipeline": case.kind, "dtype": case.dtype, "arguments": case.arguments}
    given = run_client(client, job)["result"]
    expected = RESULTS[case.kind](reference(exports, case.checkpoint, folder), case.arguments, {})
    assert_close(given, expected[: len(given)] if isinstance(expected, list) else expected, case.tolerance)

"""transformers.js in Node.js runs its pipelines on folders as written, and gives what PyTorch gives."""

from __future__ import annotations

import pytest
from cases import PIPELINES
from exporting import exported, reference
from pytorch_results import RESULTS
from running import run_client

pytestmark = pytest.mark.clients


@pytest.mark.parametrize("case", PIPELINES, ids=lambda case: case.name)
def test_a_pipeline_gives_what_pytorch_gives(case, exports, note, assert_close):
    note({"client": "transformers.js", "kind": case.kind, "case": case.label, "flags": case.flags})
    folder = exported(exports, case.checkpoint, case.task, case.flags)
    job = {"folder": str(folder), "pipeline": case.pipeline or case.kind, "dtype": case.dtype}
    given = run_client("transformers.js", {**job, "arguments": case.arguments, **case.job})
    expected = RESULTS[case.kind](reference(exports, case.checkpoint, folder), case.arguments, given["inputs"])
    assert_close(given["result"], expected, case.tolerance)

"""transformers.js in Node.js runs its pipelines on folders as written, and gives what PyTorch gives."""

import pytest
from cases import FEW, PIPELINES, TEXTS
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


def test_a_decoder_that_takes_num_logits_to_keep_gets_it(exports, note):
    """The client throws for an input that it does not give."""
    kind, name, flags = "text-generation", "llama", ("--with-input=num_logits_to_keep",)
    note({"client": "transformers.js", "kind": kind, "case": f"{name}, num_logits_to_keep", "flags": flags})
    folder = exported(exports, name, "text-generation-with-past", flags)
    arguments = [TEXTS[0], FEW]
    job = {"folder": str(folder), "pipeline": kind, "dtype": "fp32", "arguments": arguments}
    given, source = run_client("transformers.js", job), reference(exports, name, folder)
    assert "num_logits_to_keep" in source.names
    assert given["result"] == RESULTS[kind](source, arguments, given["inputs"])

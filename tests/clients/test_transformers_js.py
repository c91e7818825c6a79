"""transformers.js in Node.js and in headless Chromium runs its pipelines on folders as written, as PyTorch does."""

import pytest
from cases import FEW, PIPELINES, POOLED, TEXTS, Case
from exporting import exported, reference
from pytorch_results import RESULTS, new_tokens
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


# In a browser

DTYPES = tuple(f"--dtype={dtype}" for dtype in ("float32", "float16", "q8"))
HALF = ("--dtype=float16",)
CASES = (
    Case("feature-extraction", "minilm", [TEXTS, POOLED], flags=DTYPES),
    Case("feature-extraction", "minilm", [TEXTS, POOLED], flags=DTYPES, dtype="fp16", tolerance=2e-3),
    Case("feature-extraction", "minilm", [TEXTS, POOLED], flags=DTYPES, dtype="q8", tolerance=0.06),
    Case("text-classification", "bert classes", [TEXTS[0]], flags=HALF, dtype="fp16", tolerance=2e-3),
    Case("text-generation", "llama", [TEXTS[0], FEW], "text-generation-with-past"),
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


# A decoder of a type that a client does not know, under an alias

TASK, FLAG = "text-generation-with-past", "--alias"
IDS, COUNT = [3, 17, 45, 9, 22, 64, 5, 31], 12
JOB = {"ids": IDS, "count": COUNT, "options": {"max_new_tokens": COUNT, "do_sample": False}}
CLIENTS = {"transformers.js": {}, "optimum": {"function": "tokens", "class": "ORTModelForCausalLM"}}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_decoder_under_an_alias_writes_the_tokens_of_pytorch(client, exports, note):
    """transformers.js has no seed_oss, and ORTModel starts it with a cache of other sizes."""
    note({"client": client, "kind": "alias", "case": "seed_oss", "flags": (FLAG,)})
    folder = exported(exports, "seed_oss", TASK, (FLAG,))
    given = run_client(client, {**JOB, **CLIENTS[client], "folder": str(folder)})["result"]
    model = reference(exports, "seed_oss", folder).model
    model.generation_config.eos_token_id = None
    assert given == new_tokens(model, IDS, COUNT)

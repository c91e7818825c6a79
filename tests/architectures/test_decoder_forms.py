"""Forms of decoders that clients ask for: logits of the last tokens alone, a cache in a shared or a static buffer."""

import pytest
import swept
import tiny

import onnxfn
from onnxfn import InvalidSpec, spec_for, with_input, with_shared_cache
from onnxfn.architectures import decoders
from onnxfn.edits import with_static_cache
from onnxfn.specs.edits.logits_to_keep import NUM_LOGITS_TO_KEEP
from onnxfn.specs.tasks.tasks import task_names

TASK = "text-generation-with-past"
NAME = "decoder_forms"
FORMS = {
    NUM_LOGITS_TO_KEEP: lambda spec: with_input(spec, NUM_LOGITS_TO_KEEP),
    "shared_cache": with_shared_cache,
    "static_cache": lambda spec: with_static_cache(spec, 70),
}
"""The name of a form -> the edit."""

TYPES = [name for name, row in decoders.ROWS.items() if name != "internlm2" and TASK in task_names(row)]
"""The decoders that transformers has."""

PAIRS = [(name, form) for name in TYPES for form in FORMS]

TIES = {key: {"num_local_experts": 6} for key in ("granitemoe", "granitemoeshared")}
HEADS = {key: {"head_dim": 8} for key in ("gemma", "gemma2", "gemma3_text", "qwen3", "qwen3_moe")}
WIDTHS = {"shared_cache": {**TIES, **HEADS}, "static_cache": {"gpt_neo": {"window_size": 256}}}
"""Sizes of a form: heads as wide as a multiple of 8; other experts where two weigh the same; a window over a buffer."""


def line(model_type, form, folder):
    """What an export in a form gives; an edit or a plan may refuse it, and nothing else may."""
    model = tiny.model(model_type, "AutoModelForCausalLM", **WIDTHS.get(form, {}).get(model_type, {}))
    try:
        spec = FORMS[form](spec_for(model_type, TASK))
        onnxfn.plan(spec, model)
    except InvalidSpec as refused:
        return f"{swept.NOT}{refused}"
    result = onnxfn.export(spec, model, folder)
    assert result.report.passed
    return swept.line(result)


@pytest.mark.sweep
@pytest.mark.parametrize(("model_type", "form"), PAIRS)
def test_every_decoder_agrees_with_pytorch_in_a_form_or_its_plan_refuses_it(
    model_type, form, tmp_path, only_left, record
):
    only_left(NAME, model_type, form)
    record(NAME, model_type, form, line(model_type, form, tmp_path / "out"), set(PAIRS))


def test_the_recorded_forms_are_of_this_table():
    assert swept.pairs(NAME) == set(PAIRS)


def test_all_decoders_can_keep_the_last_logits_and_the_usual_ones_share_their_cache():
    seen = swept.seen(NAME)
    assert [name for name in TYPES if not swept.validated({"": seen[name][NUM_LOGITS_TO_KEEP]})] == []
    refused = {name for name in TYPES if not swept.validated({"": seen[name]["shared_cache"]})}
    assert refused.isdisjoint({"gemma", "gemma2", "gpt2", "granite", "llama", "mistral", "phi3", "qwen2", "qwen3"})

"""Bits of weights that an export chooses within a limit: what it predicts, and what the files have."""

import json
from pathlib import Path

import pytest
import tiny
from refusals import refusal

import onnxfn
from onnxfn.export.cli.texts import result_text
from onnxfn.quantization import kl
from onnxfn.specs.quantization import rule_for
from onnxfn.weights.onnx_files import stored_tensors

SPEC = onnxfn.spec_for("llama", "text-generation-with-past")
LIMIT = 65_000
"""Bytes of weights between those of the model in 4 bits, 47,576, and in 8 bits, 84,000."""


def bits_of(exported):
    """The bits of each matrix of the wide Llama, by the rules of the plan."""
    rules = exported.plan[0].spec.target.quantization
    projections = [*(f"self_attn.{name}_proj" for name in "qkvo"), *(f"mlp.{name}_proj" for name in ("gate", "down"))]
    names = [f"model.layers.{layer}.{name}.weight" for layer in (0, 1) for name in projections]
    chosen = {name: rule_for(rules, [name], ["MatMul"]) for name in (*names, "lm_head.weight")}
    return {name: rule.bits if rule else None for name, rule in chosen.items()}


def export(model, tokenizer, folder, **options):
    return onnxfn.export(onnxfn.quantize(SPEC, **options), model, folder, preprocessor=tokenizer)


@pytest.fixture(scope="module")
def exported(wide_llama, characters, tmp_path_factory):
    return export(wide_llama, characters, tmp_path_factory.mktemp("within") / "out", within="65 kB")


def measured(exported):
    return next(each.value for each in exported.report.measurements if each.measure == "kl")


def test_the_weights_of_a_file_are_within_bytes_and_use_them(exported):
    (chosen,) = exported.plan.chosen
    file = next(Path(file) for file in exported.files if file.endswith(".onnx"))
    stored = sum(each.length for each in stored_tensors(file) if "proj" in each.name or "lm_head" in each.name)
    assert 0.9 * LIMIT < chosen.bytes <= LIMIT
    assert stored <= chosen.bytes
    assert exported.plan.weight_bytes[0].bytes == pytest.approx(chosen.bytes, rel=0.01)
    assert {*bits_of(exported).values()} == {4, 8}
    rules = exported.plan.parts[0].spec.target.quantization
    assert all(rule.accuracy_level == (4 if rule.bits == 8 else 0) for rule in rules)


def test_what_is_predicted_is_near_what_is_measured_and_both_are_printed(exported):
    (chosen,) = exported.plan.chosen
    assert measured(exported) / 2 < chosen.kl < 2 * measured(exported)
    row = next(line for line in str(exported).splitlines() if "0.065 MB" in line)
    assert f"{chosen.kl:.3g}" in row
    assert f"{measured(exported):.3g}" in row
    assert f"{chosen.kl:.3g}" in str(exported.plan)


def test_the_plan_before_an_export_and_the_report_have_the_limit(exported, wide_llama):
    assert "within 0.065 MB" in str(onnxfn.plan(onnxfn.quantize(SPEC, within="65 kB"), wide_llama.config))
    report = json.loads((Path(exported.path) / "report.json").read_text())
    assert [each["within"] for each in report["chosen_bits"]] == [{"measure": "bytes", "most": LIMIT}]
    assert "0.065 MB" in result_text(exported)


def test_a_divergence_is_reached_with_few_bytes(exported, wide_llama, characters, tmp_path):
    limit = 2 * exported.plan.chosen[0].kl
    other = export(wide_llama, characters, tmp_path / "out", within=kl(limit))
    (chosen,) = other.plan.chosen
    assert chosen.kl <= limit
    assert measured(other) < 1.5 * limit
    assert chosen.bytes < exported.plan.chosen[0].bytes


def test_a_stricter_divergence_leaves_weights_as_floats(wide_llama, characters, tmp_path):
    other = export(wide_llama, characters, tmp_path / "out", within=kl(1e-6))
    assert None in bits_of(other).values()
    assert measured(other) < 1e-5


def test_a_limit_that_cannot_be_reached_says_what_can(wide_llama, characters, tmp_path):
    said = refusal(onnxfn.InvalidSpec, export, wide_llama, characters, tmp_path / "out", within="40 kB")
    assert "within='0.04 MB' cannot be reached; the least possible is '0.047576 MB'" in said


def test_a_model_without_logits_of_tokens_is_refused(characters, tmp_path):
    spec, model = tiny.spec_and_model("bert", "feature-extraction")
    spec = onnxfn.quantize(spec, within="1 MB")
    said = refusal(onnxfn.InvalidSpec, onnxfn.export, spec, model, tmp_path / "out", preprocessor=characters)
    assert "chosen by the logits of tokens for a text, and model has none" in said


def test_a_file_has_one_limit(wide_llama, characters, tmp_path):
    spec = onnxfn.quantize(onnxfn.quantize(SPEC, within="1 MB"), where="*lm_head*", within=kl(0.1))
    said = refusal(onnxfn.InvalidSpec, onnxfn.export, spec, wide_llama, tmp_path / "out", preprocessor=characters)
    assert "model has two limits, within 1 MB and within kl=0.1" in said


def test_the_command_line_has_the_limit(wide_llama):
    from onnxfn.export.jobs.request import ExportRequest
    from onnxfn.export.run.spec_edits import spec_of

    request = ExportRequest("model", "out", edits={"task": "text-generation-with-past", "within": "kl=0.1"})
    (rule,) = spec_of(request, wide_llama.config).target.quantization
    assert (rule.within, rule.calibrated) == (kl(0.1), True)

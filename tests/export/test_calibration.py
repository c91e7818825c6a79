import re
from pathlib import Path

import onnx
import pytest
import tiny
from refusals import refusal

import onnxfn
from onnxfn.check.variants.quantized_weights import quantized_weight_errors
from onnxfn.check.variants.text_references import text_references
from onnxfn.specs.quantization import REACH

SPEC = onnxfn.spec_for("llama", "text-generation-with-past")


@pytest.fixture(scope="module")
def exported(wide_llama, characters, tmp_path_factory):
    folder = tmp_path_factory.mktemp("calibrated")
    return onnxfn.export(SPEC, wide_llama, folder / "out", preprocessor=characters, dtypes=("q4", "q4c"))


def test_calibrated_codes_are_nearer_to_pytorch_with_the_same_bits(exported):
    kl = {each.part: each.value for each in exported.report.measurements if each.measure == "kl"}
    assert kl["model_q4c"] < 0.8 * kl["model_q4"]


def test_the_files_are_proven_again_by_validate(exported, wide_llama, characters):
    assert onnxfn.validate(SPEC, wide_llama, exported, preprocessor=characters).passed


def test_codes_are_within_reach_of_the_weights_and_not_the_nearest(exported, wide_llama):
    file = next(Path(file) for file in exported.files if file.endswith("model_q4c.onnx"))
    for reach, is_outside in ((0, True), (REACH, False)):
        errors, _ = quantized_weight_errors(wide_llama, file, reach=reach)
        assert any(each.outside for each in errors) == is_outside


def test_a_text_of_the_caller_chooses_other_codes(exported, wide_llama, characters, tmp_path):
    (tmp_path / "text").write_text("one two three four " * 200)
    spec = onnxfn.quantize(SPEC, calibrated=True)
    options = {"preprocessor": characters, "calibration": tmp_path / "text", "check": False}
    other = onnxfn.export(spec, wide_llama, tmp_path / "out", **options)
    sizes = {file.rpartition("/")[2]: open(file, "rb").read() for file in (*exported.files, *other.files)}
    assert len(sizes["model.onnx"]) == pytest.approx(len(sizes["model_q4c.onnx"]), rel=0.01)
    assert sizes["model.onnx"] != sizes["model_q4c.onnx"]
    for calibration in (iter(["one two three four " * 200]), lambda: ["one two three four " * 200]):
        same = onnxfn.export(spec, wide_llama, **options | {"path": None, "calibration": calibration})
        assert open(same.files[0], "rb").read() == sizes["model.onnx"]


def test_calibration_needs_a_tokenizer_and_a_text(wide_llama, characters, tmp_path):
    said = refusal(onnxfn.InvalidSpec, onnxfn.export, SPEC, wide_llama, tmp_path / "out", dtypes=["q4c"])
    assert "calibrated weights need a tokenizer" in said
    options = {"dtypes": ["q4c"], "preprocessor": characters, "calibration": []}
    said = refusal(onnxfn.InvalidSpec, onnxfn.export, SPEC, wide_llama, tmp_path / "out", **options)
    assert said == "calibrated weights need a text; it is empty"
    options["calibration"] = tmp_path / "none"
    assert "cannot be read" in refusal(onnxfn.InvalidSpec, onnxfn.export, SPEC, wide_llama, tmp_path / "out", **options)


def test_tokens_that_a_model_lacks_are_refused_in_a_calibration_and_not_measured(characters, tmp_path):
    model = tiny.model("llama", "AutoModelForCausalLM", vocab_size=90)
    options = {"preprocessor": characters, "dtypes": ["q4c"], "check": False}
    said = refusal(onnxfn.InvalidSpec, onnxfn.export, SPEC, model, tmp_path / "out", **options)
    words = r"the tokenizer gives the token 9\d for the calibration text; the model has the tokens 0 to 89"
    assert re.search(words, said)
    planned = onnxfn.plan(onnxfn.with_dtypes(SPEC, float="q4"), model.config)
    reference = text_references(model, characters)(planned.parts[0], planned)
    assert re.fullmatch(r"\d+ random tokens: the tokenizer has the token 9\d, and the model 90 tokens", reference.case)


def test_a_text_gives_activations_their_scales(characters, tmp_path):
    spec, model = tiny.spec_and_model("bert", "fill-mask", vocab_size=100)
    floors = onnxfn.Floors(agreement=0.5, kl=1.0)
    options = {"preprocessor": characters, "dtypes": ["int8-static"], "floors": floors}
    exported = onnxfn.export(spec, model, tmp_path / "out", **options)
    operators = [node.op_type for node in onnx.load(tmp_path / "out" / "model_int8_static.onnx").graph.node]
    assert operators.count("DequantizeLinear") - operators.count("QuantizeLinear") == len(
        [name for name, weight in model.named_parameters() if weight.ndim == 2 and "embeddings" not in name]
    )
    (cases,) = {each.cases for each in exported.report.measurements if each.measure == "kl"}
    assert cases.endswith("tokens of text")
    assert onnxfn.validate(spec, model, exported, preprocessor=characters, floors=floors).passed


def test_only_blocks_are_calibrated():
    with pytest.raises(onnxfn.InvalidSpec, match="weights of the kind 'nf4' cannot be calibrated"):
        onnxfn.quantize(SPEC, kind="nf4", calibrated=True)

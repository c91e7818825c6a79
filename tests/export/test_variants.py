"""Several dtypes in one export: names of files, one trace for each float dtype, all files or none."""

import json
import sys

import numpy as np
import pytest
import tiny
from exported_folders import paths
from graph_edits import constant, edited_file, initializers, nodes, set_constant
from refusals import refusal

import onnxfn
from onnxfn.graphs.build import captured_part
from onnxfn.specs.plan.variants import variants_plan
from onnxfn.weights.layouts import dtype_suffix

MODELS = {
    "bert": ("text-classification", ["model"]),
    "llama": ("text-generation-with-past", ["model"]),
    "t5": ("text2text-generation-with-past", ["encoder_model", "decoder_model_merged"]),
}
FLOATS = ("float32", "float16")
SUFFIXES = {"float32": "", "float16": "_fp16", "q8": "_quantized", "q4": "_q4", "q4f16": "_q4f16"}
"""The suffixes that transformers.js 4.3 looks for; Optimum writes `_quantized`, too."""


def spec_and_model(model_type):
    return tiny.spec_and_model(model_type, MODELS[model_type][0])


@pytest.mark.parametrize(
    ("model_type", "layout"),
    [("bert", "optimum"), ("llama", "transformers.js"), pytest.param("t5", "optimum", marks=pytest.mark.sweep)],
)
def test_each_dtype_has_files_of_its_own_and_each_float_dtype_one_trace(model_type, layout, tmp_path):
    events, (_, parts) = [], MODELS[model_type]
    write = onnxfn.WriteOptions(layout=layout, external_data_threshold=0)
    options = {"write": write, "check": False, "overwrite": True, "on_event": events.append}
    exported = onnxfn.export(*spec_and_model(model_type), tmp_path, dtypes=tuple(SUFFIXES), **options)
    stems = {dtype: [f"{part}{suffix}" for part in parts] for dtype, suffix in SUFFIXES.items()}
    every = [stem for group in stems.values() for stem in group]
    files = [name.removeprefix("onnx/") for name in paths(tmp_path) if ".onnx" in name]
    assert sorted(files) == sorted(name for stem in every for name in (f"{stem}.onnx", f"{stem}.onnx_data"))
    assert [part.name for part in exported.plan] == every
    assert onnxfn.verify(tmp_path).passed
    assert json.loads((tmp_path / "report.json").read_text())["variants"] == stems
    config = json.loads((tmp_path / "config.json").read_text())
    listed = config.get("transformers.js_config", {}).get("use_external_data_format", {})
    assert sorted(listed) == (sorted(f"{stem}.onnx" for stem in every) if layout == "transformers.js" else [])
    captured = [event.part for event in events if (event.stage, event.status) == ("capture", "start")]
    per_dtype = len(parts) + sum(len(part.filler) for part in exported.plan) // len(SUFFIXES)
    assert len(captured) == len({*captured}) == 2 * per_dtype


@pytest.mark.parametrize("model_type", ["bert", "llama", pytest.param("t5", marks=pytest.mark.sweep)])
def test_each_dtype_is_checked(model_type, tmp_path):
    exported = onnxfn.export(*spec_and_model(model_type), tmp_path / "out", dtypes=FLOATS)
    assert exported.report.passed
    files = {f"{part}{SUFFIXES[dtype]}" for part in MODELS[model_type][1] for dtype in FLOATS}
    assert {difference.part for difference in exported.report.differences} == files


def test_variants_of_one_float_dtype_have_one_trace():
    spec, model = spec_and_model("t5")
    quantized = onnxfn.quantize(spec, bits=8, where="*lm_head*")
    dtypes = ("float32", "q8", "q4")
    planned = variants_plan(lambda _: onnxfn.plan(quantized, model.config), dtypes, dtype_suffix)
    assert len({part.spec.target.quantization for part in planned}) == 3
    assert len({captured_part(part) for part in planned}) == len(MODELS["t5"][1])
    assert planned["decoder_model_merged"].spec.target.quantization == ()
    links = {(link.input, link.part) for link in planned["decoder_model_merged_q4"].spec.links}
    assert ("encoder_hidden_states", "encoder_model_q4") in links


@pytest.mark.parametrize("model_type", ["llama", "t5"])
def test_texts_are_generated_by_the_files_of_a_dtype(model_type, tmp_path):
    spec, model = spec_and_model(model_type)
    exported = onnxfn.export(spec, model, tmp_path / "out", dtypes=FLOATS, check=False)
    prompts = np.array([[5, 6, 7]])
    texts = [onnxfn.generate(tmp_path / "out", prompts, max_new_tokens=5, dtype=dtype) for dtype in (None, *FLOATS)]
    assert np.array_equal(texts[0], texts[1])
    assert np.array_equal(texts[0], onnxfn.generate(exported, prompts, max_new_tokens=5))
    alone = onnxfn.export(onnxfn.with_dtypes(spec, float="float16"), model, tmp_path / "half", check=False)
    assert np.array_equal(texts[2], onnxfn.generate(alone, prompts, max_new_tokens=5))
    loaded = onnxfn.load(tmp_path / "out", dtype=FLOATS[1])
    assert np.array_equal(texts[2], onnxfn.generate(loaded, prompts, max_new_tokens=5))
    message = refusal(onnxfn.ModelNotFound, onnxfn.generate, tmp_path / "out", prompts, dtype="q4")
    assert message.endswith("by their names: float32, float16")


def test_a_variant_is_loaded_under_the_names_of_its_parts(tmp_path):
    spec, model = spec_and_model("t5")
    onnxfn.export(spec, model, tmp_path / "out", dtypes=FLOATS, check=False)
    half = onnxfn.load(tmp_path / "out", dtype="float16")
    assert sorted(half.graphs) == ["decoder_model_merged", "encoder_model"]
    assert half.session("encoder_model").get_outputs()[0].type == "tensor(float16)"
    assert len(onnxfn.load(tmp_path / "out").graphs) == 4
    saved = half.save(tmp_path / "saved")
    files = ["decoder_model_merged_fp16.onnx", "encoder_model_fp16.onnx"]
    assert paths(tmp_path / "saved") == ["config.json", *files, "generation_config.json"]
    assert saved.path == str(tmp_path / "saved")


LOW = onnxfn.Floors(agreement=0.0, kl=99.0, cosine=-1.0, cases=-1.0)
"""Floors that random weights reach."""


def set_scales_to_zero(model):
    for name in initializers(model, ".scales"):
        set_constant(model, name, 0 * constant(model, name))


@pytest.mark.parametrize("model_type", ["llama", "t5"])
def test_the_variant_that_is_loaded_is_validated(model_type, tmp_path):
    spec, model = spec_and_model(model_type)
    *_, parts = MODELS[model_type]
    onnxfn.export(spec, model, tmp_path / "out", dtypes=("float32", "q4"), check=False)
    right = onnxfn.validate(spec, model, onnxfn.load(tmp_path / "out", dtype="q4"), floors=LOW)
    assert right.passed
    assert {each.part for each in right.differences} == {f"{part}_q4" for part in parts}
    assert right.unchecked == tuple(sorted(f"{part}.onnx" for part in parts))
    assert "not checked" in str(right)
    edited_file(tmp_path / "out" / f"{parts[0]}_q4.onnx", set_scales_to_zero)
    wrong = onnxfn.validate(spec, model, onnxfn.load(tmp_path / "out", dtype="q4"), floors=LOW)
    assert not wrong.passed
    assert any("more than a step away" in line for line in wrong.findings)
    floats = onnxfn.validate(spec, model, tmp_path / "out")
    assert floats.passed
    assert floats.unchecked == tuple(sorted(f"{part}_q4.onnx" for part in parts))
    assert onnxfn.validate(spec, model, onnxfn.load(tmp_path / "out")).unchecked == floats.unchecked
    assert onnxfn.validate(spec, model, onnxfn.load(tmp_path / "out", dtype="float32")).unchecked == floats.unchecked


def test_every_variant_of_an_export_is_validated(tmp_path):
    spec, model = spec_and_model("llama")
    exported = onnxfn.export(spec, model, tmp_path / "out", dtypes=("float32", "q4"), check=False)
    right = onnxfn.validate(spec, model, exported, floors=LOW)
    assert right.passed
    assert right.unchecked == ()
    assert {each.part for each in right.differences} == {"model", "model_q4"}
    edited_file(tmp_path / "out" / "model_q4.onnx", set_scales_to_zero)
    assert not onnxfn.validate(spec, model, exported, floors=LOW).passed


def test_bisect_names_the_module_of_a_variant(tmp_path):
    spec, model = spec_and_model("llama")
    onnxfn.export(spec, model, tmp_path / "out", dtypes=("float32", "q4"), check=False)
    file = tmp_path / "out" / "model_q4.onnx"
    edited_file(file, lambda model: setattr(nodes(model, "Sigmoid")[-1], "op_type", "Softplus"))
    assert onnxfn.bisect(spec, model, onnxfn.load(tmp_path / "out", dtype="q4")).module == "model.layers.1.mlp.act_fn"
    assert onnxfn.bisect(spec, model, onnxfn.load(tmp_path / "out", dtype="float32")).module is None


def test_fewer_dtypes_delete_the_files_of_the_others(tmp_path):
    spec, model = spec_and_model("bert")
    onnxfn.export(spec, model, tmp_path / "out", dtypes=FLOATS, check=False)
    onnxfn.export(spec, model, tmp_path / "out", dtypes=("float16",), check=False, overwrite=True)
    assert paths(tmp_path / "out") == ["config.json", "model_fp16.onnx", "report.json"]
    onnxfn.export(spec, model, tmp_path / "out", check=False, overwrite=True)
    assert paths(tmp_path / "out") == ["config.json", "model.onnx", "report.json"]


def test_one_variant_that_fails_leaves_no_file_and_is_named(tmp_path, monkeypatch):
    attempts, spec_model = sys.modules["onnxfn.export.run.attempts"], spec_and_model("bert")
    check_files = attempts.check_files

    def broken(job, **options):
        if job.plan.parts[0].dtype == "float16":
            raise onnxfn.CheckFailed("model_fp16: 'logits' differs")
        return check_files(job, **options)

    monkeypatch.setattr(attempts, "check_files", broken)
    message = refusal(onnxfn.CheckFailed, onnxfn.export, *spec_model, tmp_path / "out", dtypes=FLOATS)
    assert message.startswith("float16: model_fp16: 'logits' differs; no file of any dtype was written; leave 'flo")
    assert paths(tmp_path) == []


def test_a_single_file_takes_a_single_dtype(tmp_path):
    spec, model = spec_and_model("bert")
    exported = onnxfn.export(spec, model, tmp_path / "half.onnx", dtypes=("float16",), check=False)
    assert [part.name for part in exported.plan] == ["half"]
    message = refusal(onnxfn.InvalidSpec, onnxfn.export, spec, model, tmp_path / "both.onnx", dtypes=FLOATS)
    assert message == "the export has 2 files, model.onnx, model_fp16.onnx; name a folder, not one file"


@pytest.mark.parametrize(
    ("dtypes", "error", "words"),
    [
        (("float32", "fp17"), onnxfn.UnknownName, "no dtype 'fp17'; known: float32, float16"),
        (("float16", "float16"), onnxfn.InvalidSpec, "dtypes has 'float16' twice: each dtype has files of its own"),
        ("float16", onnxfn.InvalidSpec, "a sequence is expected, not the text 'float16'"),
    ],
)
def test_wrong_dtypes_are_refused(dtypes, error, words, tmp_path):
    assert words in refusal(error, onnxfn.export, *spec_and_model("bert"), tmp_path / "out", dtypes=dtypes)

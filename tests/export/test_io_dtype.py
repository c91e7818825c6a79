import numpy as np
import pytest
import tiny

import onnxfn
from onnxfn.specs.edits.tensors import with_dtypes

MODELS = {
    "bert": "text-classification",
    "vit": "image-classification",
    "llama": "text-generation-with-past",
    "t5": "text2text-generation-with-past",
}


def types(session):
    ports = (*session.get_inputs(), *session.get_outputs())
    return {port.name: port.type.removeprefix("tensor(").removesuffix(")") for port in ports}


@pytest.mark.parametrize("model_type", MODELS)
def test_all_but_caches_are_float32_in_a_checked_float16_file(model_type, tmp_path):
    spec, model = tiny.spec_and_model(model_type, MODELS[model_type])
    exported = onnxfn.export(with_dtypes(spec, float="float16", io="float32"), model, tmp_path / "out")
    assert exported.report.passed
    for part in exported.plan:
        floats = {name: kind for name, kind in types(exported.session(part.name)).items() if "float" in kind}
        caches = {name for name in floats if name.startswith(("past", "present"))}
        assert {floats[name] for name in caches} <= {"float16"}
        assert {kind for name, kind in floats.items() if name not in caches} == {"float"}


def test_the_layout_of_transformers_js_gives_float32(tmp_path):
    model, write = tiny.model("bert", "AutoModel"), onnxfn.WriteOptions(layout="transformers.js")
    spec = with_dtypes(onnxfn.spec_for(model, "feature-extraction"), float="float16")
    assert types(onnxfn.export(spec, model, tmp_path / "out", write=write).session())["last_hidden_state"] == "float"
    assert onnxfn.validate(spec, model, tmp_path / "out").passed
    kept = onnxfn.export(with_dtypes(spec, io="float16"), model, tmp_path / "kept", write=write, check=False)
    assert types(kept.session())["last_hidden_state"] == "float16"


def test_a_float32_output_is_the_float16_output_cast(tmp_path):
    model = tiny.model("bert", "AutoModel")
    spec = with_dtypes(onnxfn.spec_for(model, "feature-extraction"), float="float16")
    ids = np.arange(12).reshape(2, 6)
    feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    half = onnxfn.export(spec, model, check=False)(**feeds)["last_hidden_state"]
    single = onnxfn.export(with_dtypes(spec, io="float32"), model, check=False)(**feeds)["last_hidden_state"]
    assert (half.dtype, single.dtype) == (np.float16, np.float32)
    assert np.array_equal(half.astype(np.float32), single)


def test_a_file_that_gives_another_type_than_planned_fails_the_check(tmp_path):
    model = tiny.model("bert", "AutoModel")
    spec = with_dtypes(onnxfn.spec_for(model, "feature-extraction"), float="float16")
    onnxfn.export(spec, model, tmp_path / "half.onnx", check=False)
    report = onnxfn.validate(with_dtypes(spec, io="float32"), model, tmp_path / "half.onnx")
    assert not report.passed
    assert any("is float16 in the file, but float32 in the plan" in finding for finding in report.findings)

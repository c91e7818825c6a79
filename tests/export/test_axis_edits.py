import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import transformers

import onnxfn
from onnxfn import spec_for, with_axis_names, with_constants, with_dtypes, with_input_order, with_shapes


def axes(file):
    graph = onnx.load(file, load_external_data=False).graph
    return {
        port.name: [size.dim_param or size.dim_value for size in port.type.tensor_type.shape.dim]
        for port in (*graph.input, *graph.output)
    }


def test_a_file_has_the_new_names_and_the_range(classifier, tmp_path):
    spec = with_shapes(with_axis_names(spec_for(classifier), batch_size="N", sequence_length="T"), T=(2, 24))
    result = onnxfn.export(spec, classifier, tmp_path / "out")
    assert axes(tmp_path / "out" / "model.onnx") == {
        **{key: ["N", "T"] for key in ("input_ids", "attention_mask", "token_type_ids")},
        "logits": ["N", 2],
    }
    assert [str(limit) for limit in result.limits] == ["T >= 2", "T <= 24"]
    assert len(result.report.cases) >= 4
    assert any("T=24" in case for case in result.report.cases)
    assert not any(f"T={size}" in case for case in result.report.cases for size in range(25, 97))


def test_a_range_beyond_what_the_model_can_take_is_refused(classifier, tmp_path):
    with pytest.raises(
        onnxfn.CaptureFailed, match=r"takes the sizes 2 to 96 .* use with_shapes\(spec, sequence_length=\(2, 96\)\)"
    ):
        onnxfn.export(with_shapes(spec_for(classifier), sequence_length=(2, 128)), classifier, tmp_path / "out")


def test_strides_of_float16_limit_no_size_of_an_image(tmp_path):
    config = transformers.ResNetConfig(hidden_sizes=[16, 32], depths=[1, 1], layer_type="basic", embedding_size=8)
    spec = with_shapes(spec_for("resnet", "image-classification"), height=(8, 40), width=(8, 40))
    model = transformers.ResNetForImageClassification(config).eval()
    result = onnxfn.export(with_dtypes(spec, float="float16"), model, tmp_path / "out")
    assert [str(limit) for limit in result.limits] == ["height >= 8", "height <= 40", "width >= 8", "width <= 40"]


def test_a_decoder_with_new_names_generates(llama, tmp_path):
    names = {"batch_size": "N", "past_sequence_length": "P", "sequence_length": "T"}
    spec = with_axis_names(spec_for("llama", "text-generation-with-past"), **names)
    result = onnxfn.export(spec, llama, tmp_path / "out")
    assert axes(tmp_path / "out" / "model.onnx")["attention_mask"] == ["N", "P + T"]
    assert any("N=3" in case for case in result.report.cases)
    assert onnxfn.generate(result, [[1, 2, 3], [4, 5, 6]], max_new_tokens=3).shape == (2, 6)


def test_a_file_has_a_constant_in_place_of_an_input_and_another_dtype_and_order(classifier, tmp_path):
    edit = with_constants(token_type_ids=1)
    spec = with_input_order(with_dtypes(edit(spec_for(classifier)), input_ids="int32"), "attention_mask")
    result = onnxfn.export(spec, classifier, tmp_path / "out")
    assert list(axes(tmp_path / "out" / "model.onnx")) == ["attention_mask", "input_ids", "logits"]
    assert result.report.passed
    session = onnxruntime.InferenceSession(tmp_path / "out" / "model.onnx")
    ids, mask = np.arange(21).reshape(3, 7), np.ones((3, 7), np.int64)
    (logits,) = session.run(None, {"input_ids": ids.astype(np.int32), "attention_mask": mask})
    arguments = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.ones_like(ids)}
    with torch.no_grad():
        expected = classifier(**{name: torch.from_numpy(array) for name, array in arguments.items()}).logits
        others = classifier(torch.from_numpy(ids), torch.from_numpy(mask)).logits
    np.testing.assert_allclose(logits, expected.numpy(), atol=1e-5)
    assert abs(others - expected).max() > 1e-3


def test_a_decoder_with_a_constant_mask_generates_what_it_is_checked_for(llama, tmp_path):
    spec = with_constants(spec_for("llama", "text-generation-with-past"), attention_mask=1)
    result = onnxfn.export(spec, llama, tmp_path / "out")
    assert "attention_mask" not in axes(tmp_path / "out" / "model.onnx")
    assert result.report.passed


@pytest.mark.parametrize(("longest", "decodes"), [(64, True), (12, False)])
def test_texts_are_decoded_only_in_the_ranges_of_a_decoder(longest, decodes, llama, tmp_path):
    spec = spec_for("llama", "text-generation-with-past")
    ranged = with_shapes(spec, past_sequence_length=(0, longest), sequence_length=(1, 32))
    cases = onnxfn.export(ranged, llama, tmp_path / "out").report.cases
    assert any("different tokens" in case for case in cases) == decodes
    assert not any(f"past_sequence_length={size}," in case for case in cases for size in range(longest + 1, 600))

import gc
import io
import pickle
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from exported_folders import content
from refusals import refusal

import onnxfn
from onnxfn import InvalidSpec, ModelNotFound, OutputExists, UnknownName
from onnxfn.export.report.graph_summary import graph_files

BERT = onnxfn.spec_for("bert", "fill-mask")
T5 = onnxfn.spec_for("t5", "text2text-generation")
IDS = torch.arange(1, 11).reshape(2, 5)
FEEDS = {"input_ids": IDS, "attention_mask": torch.ones_like(IDS), "token_type_ids": torch.zeros_like(IDS)}


def test_a_result_without_a_path_is_called_and_its_folder_is_deleted_with_it(bert, temporary_files):
    result = onnxfn.export(BERT, bert)
    with torch.no_grad():
        expected = bert(**FEEDS).logits
    assert result.report.passed
    assert [*result(**FEEDS)] == ["logits"]
    np.testing.assert_allclose(result(**FEEDS)["logits"], expected, atol=1e-5)
    assert result(**{name: tensor.tolist() for name, tensor in FEEDS.items()})["logits"].shape == (2, 5, 128)
    assert [*temporary_files.iterdir()] == [Path(result.path).parent]
    del result
    gc.collect()
    assert [*temporary_files.iterdir()] == []


def test_what_is_saved_is_what_an_export_with_a_path_writes(bert, tmp_path, temporary_files):
    result = onnxfn.export(BERT, bert)
    saved = result.save(tmp_path / "out")
    file = result.save(tmp_path / "model.onnx")
    del result
    gc.collect()
    assert [*temporary_files.iterdir()] == []
    onnxfn.export(BERT, bert, tmp_path / "expected")
    onnxfn.export(BERT, bert, tmp_path / "expected.onnx")
    assert content(tmp_path / "out") == content(tmp_path / "expected")
    assert (tmp_path / "model.onnx").read_bytes() == (tmp_path / "expected" / "model.onnx").read_bytes()
    assert onnxfn.verify(saved.path).passed
    assert [*saved.files] == [str(tmp_path / "out" / name) for name in ("model.onnx", "config.json", "report.json")]
    np.testing.assert_array_equal(saved(**FEEDS)["logits"], file(**FEEDS)["logits"])


@pytest.mark.usefixtures("temporary_files")
def test_several_parts_with_external_data_are_called_saved_and_loaded(t5, tmp_path):
    result = onnxfn.export(T5, t5, write=onnxfn.WriteOptions(external_data_threshold=0))
    assert any(file.endswith(".onnx_data") for file in result.files)
    encoded = result("encoder_model", input_ids=IDS, attention_mask=torch.ones_like(IDS))
    states = {"encoder_hidden_states": encoded["last_hidden_state"], "encoder_attention_mask": torch.ones_like(IDS)}
    decoded = result("decoder_model", input_ids=IDS[:, :3], **states)
    with torch.no_grad():
        expected = t5(input_ids=IDS, decoder_input_ids=IDS[:, :3]).logits
    np.testing.assert_allclose(decoded["logits"], expected, atol=1e-4)
    result.save(tmp_path / "out")
    loaded = onnxfn.load(tmp_path / "out")
    assert {*map(Path, loaded.files)} == {tmp_path / "out" / Path(file).name for file in result.files}
    np.testing.assert_array_equal(loaded("decoder_model", input_ids=IDS[:, :3], **states)["logits"], decoded["logits"])
    assert refusal(InvalidSpec, result, **states).startswith("the export has the parts encoder_model, decoder_model")
    assert "did you mean 'decoder_model'?" in refusal(UnknownName, result, "decoder_modl", **states)
    assert refusal(InvalidSpec, result.save, tmp_path / "all.onnx").endswith("name a folder, not one file")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"token_type_ids": None}, "no value for token_type_ids; model.onnx takes input_ids, attention_mask, "),
        ({"input_ids": IDS.int()}, "input_ids is int32; model.onnx takes int64"),
        ({"input_ids": IDS.bfloat16()}, "input_ids is torch.bfloat16; model.onnx takes int64"),
        ({"input_ids": [[0.5] * 5] * 2}, "input_ids is float64; model.onnx takes int64"),
        ({"input_ids": ["a text"]}, "input_ids is <U6; model.onnx takes int64"),
        ({"input_ids": [[1], [2, 3]]}, "input_ids is not an array of numbers: "),
        ({"input_ids": IDS[0]}, "input_ids has the shape [5]; model.onnx takes [batch_size, sequence_length]"),
        ({"attention_mask": IDS[:, :3]}, "attention_mask has the shape [2, 3], but sequence_length is 5 in input_ids"),
        ({"input_ids": IDS + 10_000}, "ONNX Runtime cannot run model.onnx on these inputs: indices element out of "),
    ],
)
def test_wrong_inputs_are_refused_in_a_line(changed, message, exported):
    arrays = {name: value for name, value in {**FEEDS, **changed}.items() if value is not None}
    text = refusal(InvalidSpec, exported, **arrays)
    assert text.startswith(message)
    assert "\n" not in text


def test_a_size_below_the_smallest_of_the_model_is_refused_with_that_size():
    convolution = torch.nn.Conv2d(3, 4, 4, stride=4)
    spec = onnxfn.derived(convolution, sample=torch.randn(2, 3, 16, 16), axes="batch_size 3 height width")
    result = onnxfn.export(spec, convolution)
    assert result(input=torch.randn(1, 3, 4, 4))["output"].shape == (1, 4, 1, 1)
    message = refusal(InvalidSpec, result, input=torch.randn(1, 3, 2, 8))
    assert "height is 2 in input, too small: an axis in the graph has no element; pass height >= 4" in message


def test_an_input_without_a_name_or_with_an_unknown_one_is_refused(exported):
    message = refusal(UnknownName, exported, **FEEDS, input_id=IDS)
    assert message.startswith("no input 'input_id' for model.onnx; known: input_ids, ")
    assert message.endswith("did you mean 'input_ids'?")
    message = refusal(InvalidSpec, lambda: exported(IDS))
    assert message == "part is of the type Tensor; pass inputs by name, such as result(input_ids=...)"


@pytest.fixture(scope="module")
def exported(bert, tmp_path_factory):
    return onnxfn.export(BERT, bert, tmp_path_factory.mktemp("loaded") / "out")


def test_a_result_with_a_path_has_the_same_methods(exported, tmp_path):
    assert onnx.checker.check_model(exported.model_proto()) is None
    assert [port.name for port in exported.session().get_inputs()] == [*exported.inputs]
    assert exported.session("model", providers=["CPUExecutionProvider"]).get_providers() == ["CPUExecutionProvider"]
    assert "no provider 'CUDA'" in refusal(UnknownName, exported.session, providers=["CUDA"])
    exported.save(tmp_path / "copy")
    assert content(tmp_path / "copy") == content(Path(exported.path))
    assert not (tmp_path / "copy" / "model.onnx").samefile(exported.files[0])
    refusal(OutputExists, exported.save, tmp_path / "copy")
    exported.save(tmp_path / "copy", overwrite=True)
    loaded = onnxfn.load(tmp_path / "copy")
    assert (loaded.inputs, loaded.outputs) == (exported.inputs, exported.outputs)


def test_results_are_pickled_and_written_as_json(exported):
    copied = pickle.loads(pickle.dumps(exported))
    assert copied == exported
    np.testing.assert_array_equal(copied(**FEEDS)["logits"], exported(**FEEDS)["logits"])
    read = onnxfn.from_json(onnxfn.to_json(exported), record=onnxfn.Exported)
    assert read == exported
    assert refusal(InvalidSpec, read, **FEEDS).endswith(f"onnxfn.load({exported.path!r})")


def test_load_takes_a_file_and_a_folder_without_a_report(exported, tmp_path):
    for path in (exported.path, exported.files[0]):
        np.testing.assert_array_equal(onnxfn.load(path)(**FEEDS)["logits"], exported(**FEEDS)["logits"])
    (tmp_path / "model.onnx").write_bytes(Path(exported.files[0]).read_bytes())
    assert onnxfn.load(tmp_path).files == (str(tmp_path / "model.onnx"),)
    assert onnxfn.load(exported.path).files == exported.files
    (tmp_path / "unet").mkdir()
    (tmp_path / "model.onnx").rename(tmp_path / "unet" / "model_fp16.onnx")
    assert graph_files(tmp_path) == [tmp_path / "unet" / "model_fp16.onnx"]  # as `onnxfn inspect` reads it
    message = refusal(ModelNotFound, onnxfn.load, tmp_path)
    assert message == f"no ONNX file at {tmp_path}; folders in it with a model: {tmp_path / 'unet'}"


@pytest.mark.usefixtures("temporary_files")
def test_a_file_object_gets_the_bytes_of_the_file(bert, t5, tmp_path):
    opened = io.BytesIO()
    result = onnxfn.export(BERT, bert, opened)
    onnxfn.export(BERT, bert, tmp_path / "model.onnx")
    assert opened.getvalue() == (tmp_path / "model.onnx").read_bytes()
    assert result(**FEEDS)["logits"].shape == (2, 5, 128)
    assert "name a folder" in refusal(InvalidSpec, onnxfn.export, T5, t5, io.BytesIO())
    text = refusal(InvalidSpec, onnxfn.export, BERT, bert, io.StringIO())
    assert text == "path is of the type StringIO; pass a path, None, or a file open for bytes"


def test_a_file_object_for_external_data_is_refused(bert, temporary_files):
    size = sum(weight.nbytes for weight in bert.parameters())
    opened = io.BytesIO()
    outside = onnxfn.WriteOptions(external_data_threshold=size - 1)
    message = refusal(InvalidSpec, onnxfn.export, BERT, bert, opened, write=outside, check=False)
    assert message.endswith("and a file object takes one; pass a folder")
    assert opened.getvalue() == b""
    assert [*temporary_files.iterdir()] == []
    onnxfn.export(BERT, bert, opened, write=onnxfn.WriteOptions(external_data_threshold=2 * size), check=False)
    assert opened.getvalue()

"""Weights are compared as bytes, whether or not a case of the check reaches them."""

from functools import partial

import pytest
import tiny
import torch
from graph_edits import changed_weight, edited_file
from refusals import refusal
from small_modules import module
from vector_specs import vector_spec

import onnxfn
from onnxfn.check.variants.weight_bytes import weight_findings
from onnxfn.weights.onnx_files import stored_tensors

SPEC = onnxfn.spec_for("bert", "feature-extraction")
TABLE = "embeddings.word_embeddings.weight"
WIDE = onnxfn.WriteOptions(external_data_threshold=0)


@pytest.fixture(scope="module")
def bert():
    return tiny.model("bert", "AutoModel", vocab_size=4000)


@pytest.fixture(scope="module")
def folder(bert, tmp_path_factory):
    path = tmp_path_factory.mktemp("bert") / "out"
    onnxfn.export(SPEC, bert, path, check=False)
    return path


def changed(folder, path, name, change):
    return edited_file(folder / "model.onnx", changed_weight(name, change), path / "model.onnx")


def change_row(table, row=3777):
    table[row] += 1e-3
    return table


def permute_rows(table):
    table[[3777, 3778]] = table[[3778, 3777]]
    return table


@pytest.mark.parametrize("change", [change_row, permute_rows])
def test_a_row_of_a_table_that_no_text_looks_up_is_found(change, bert, folder, tmp_path):
    report = onnxfn.validate(SPEC, bert, changed(folder, tmp_path, TABLE, change))
    assert report.findings == (f"model: {TABLE} in the file is not the model's, first in row 3777 of 4000",)
    assert not report.passed
    assert all(difference.passed for difference in report.differences)


@pytest.mark.parametrize("name", ["attention.self.query", "intermediate.dense", "output.dense"])
def test_an_element_of_a_transposed_matrix_is_found(name, bert, folder, tmp_path):
    name = f"encoder.layer.0.{name}.weight"
    (finding,) = onnxfn.validate(SPEC, bert, changed(folder, tmp_path, name, partial(change_row, row=(5, 7)))).findings
    assert f"{name} in the file is not the model's, first in row 5 of " in finding


@pytest.mark.parametrize("symmetric", [False, True])
def test_a_row_of_a_square_table_is_found(symmetric, tmp_path):
    model = tiny.model("bert", "AutoModel", vocab_size=4000, max_position_embeddings=32)
    if symmetric:
        model.embeddings.position_embeddings.weight.data.fill_(0.5)
    onnxfn.export(SPEC, model, tmp_path / "out", check=False)
    name = "embeddings.position_embeddings.weight"
    report = onnxfn.validate(SPEC, model, changed(tmp_path / "out", tmp_path, name, partial(change_row, row=30)))
    assert report.findings == (f"model: {name} in the file is not the model's, first in row 30 of 32",)


@pytest.mark.parametrize("dtype", [None, "float16"])
def test_external_data_and_converted_weights_are_compared(dtype, bert, tmp_path):
    spec = onnxfn.with_dtypes(SPEC, float=dtype) if dtype else SPEC
    result = onnxfn.export(spec, bert, tmp_path / "out", check=False, write=WIDE)
    file = tmp_path / "out" / "model.onnx"
    assert weight_findings(bert, result.plan.parts[0], file) == ()
    data = tmp_path / "out" / "model.onnx_data"
    content = bytearray(data.read_bytes())
    table = next(stored for stored in stored_tensors(file) if stored.name == TABLE)
    content[table.offset + table.length // 2] ^= 1
    data.write_bytes(content)
    (finding,) = weight_findings(bert, result.plan.parts[0], file)
    assert "in the file is not the model's, first in row " in finding


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_weights_that_are_not_finite_are_named(value, tmp_path):
    model = tiny.model("bert", "AutoModel")
    with torch.no_grad():
        model.encoder.layer[1].output.dense.weight[2, 3:5] = value
    message = refusal(onnxfn.CheckFailed, onnxfn.export, SPEC, model, tmp_path / "out")
    fault = "has 2 elements that are NaN or infinite, in the model itself"
    assert message.startswith(f"model: encoder.layer.1.output.dense.weight {fault}")


def test_infinite_elements_of_a_buffer_are_not_named(tmp_path):
    forward = lambda self, x: {"y": torch.softmax(self.linear(x)[:, None] + self.mask, dim=-1)}  # noqa: E731
    masked = module(forward, linear=torch.nn.Linear(4, 4), mask=torch.nn.Buffer(torch.full((4, 4), -torch.inf).triu(1)))
    assert onnxfn.export(vector_spec(4, "4 4"), masked, tmp_path / "out").report.passed

"""A `report.json` from elsewhere: whatever it says, nothing outside its folder is read, and no batch ends."""

from __future__ import annotations

import os

import onnx
import pytest
import tiny
from refusals import refusal
from reports import report_text

import onnxfn
from onnxfn.export.batch.log import is_unchanged
from onnxfn.export.batch.records import JobResult
from onnxfn.export.clients.card import CARD, write_card
from onnxfn.export.report.report_file import REPORT_FILE, recorded
from onnxfn.specs.errors import InvalidSpec

FACTS = {"bytes": 3, "sha256": "0" * 64}
OUTSIDE = ("../secret", "/secret", "a/../../secret", "C:\\secret", "\\\\host\\share")
MALFORMED = {
    "files are no mapping": {"files": []},
    "a file without facts": {"files": {"model.onnx": {}}},
    "facts that are none": {"files": {"model.onnx": 3}},
    "a size that is none": {"files": {"model.onnx": {**FACTS, "bytes": "3"}}},
    "a digest that is none": {"files": {"model.onnx": {**FACTS, "sha256": None}}},
    "a graph that is no file": {"graphs": {"model.onnx": {}}},
    "graphs without facts": {"files": {"model.onnx": FACTS}, "graphs": {"model.onnx": 3}},
    "a check without outputs": {"check": {"status": "passed"}},
    "a status that is none": {"check": {"status": 1, "outputs": []}},
    "a measurement that is none": {"check": {"status": "passed", "outputs": [], "measurements": [{"value": None}]}},
    "options that are none": {"options": 1},
    "another version": {"schema_version": 99},
    **{f"the file {name}": {"files": {name: FACTS}} for name in OUTSIDE},
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    model = tiny.model("bert", "AutoModelForMaskedLM")
    folder = tmp_path_factory.mktemp("exported") / "out"
    onnxfn.export(onnxfn.spec_for(model, "fill-mask"), model, folder, check=False)
    return folder


@pytest.mark.parametrize("fields", MALFORMED.values(), ids=MALFORMED)
def test_a_report_that_cannot_be_used_is_as_none_for_every_reader(fields, tmp_path):
    (tmp_path / REPORT_FILE).write_text(report_text(**fields))
    assert recorded(tmp_path) is None
    (fault,) = onnxfn.verify(tmp_path).faults
    assert "cannot be used" in fault
    result = JobResult("model", str(tmp_path), "exported", digest="d")
    assert not is_unchanged(result, "d")
    (tmp_path / CARD).write_text("mine")
    assert write_card({}, tmp_path, tmp_path) == ()


def test_a_result_whose_report_is_complete_is_unchanged(tmp_path):
    (tmp_path / REPORT_FILE).write_text(report_text())
    result = JobResult("model", str(tmp_path), "exported", digest="d")
    assert is_unchanged(result, "d")


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_a_report_names_outside_its_folder_is_not_saved(name, exported, tmp_path):
    folder = tmp_path / "a" / "out"
    os.makedirs(folder)
    for file in exported.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    (tmp_path / "secret").write_text("secret")
    (folder / REPORT_FILE).write_text(report_text(files={name: FACTS}))
    saved = onnxfn.load(folder).save(tmp_path / "b" / "saved")
    assert [os.path.basename(file) for file in saved.files] == ["model.onnx"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "secret"]


def test_external_data_outside_the_folder_is_not_loaded(tmp_path):
    weight = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [1], [1.0])
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="../secret")
    graph = onnx.helper.make_graph([], "g", [], [], [weight])
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "model.onnx").write_bytes(onnx.helper.make_model(graph).SerializeToString())
    message = refusal(InvalidSpec, onnxfn.load, tmp_path / "out")
    assert "has external data outside its folder: '../secret'" in message

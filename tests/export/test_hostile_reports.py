"""A `report.json` from elsewhere: whatever it says, nothing outside its folder is read, and no batch ends."""

import json
import os
import shutil
from pathlib import Path

import onnx
import pytest
from exported_folders import write_other
from refusals import refusal
from reports import report_text

import onnxfn
from onnxfn import CheckFailed, InvalidSpec, JobResult, LoadFailed, ModelNotFound
from onnxfn.export.batch.many import is_unchanged
from onnxfn.export.clients.card import CARD, write_card
from onnxfn.export.publish.publishing import stale_files
from onnxfn.export.publish.staging import Destination
from onnxfn.export.report.graph_summary import graph_summary
from onnxfn.export.report.push import uploaded_files, verified
from onnxfn.export.report.report_file import REPORT_FILE, is_foreign_report, recorded
from onnxfn.export.run.diffusers import INDEX_FILE, _earlier_parts
from onnxfn.run.generation import _start_token
from onnxfn.run.sessions import open_check_session, open_session
from onnxfn.weights import digests

FACTS = {"bytes": 3, "sha256": "0" * 64}
OUTSIDE_FAULT, LINK = "is outside its folder", "is a link out of its folder"
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
    "measurements that are no list": {"check": {"status": "passed", "outputs": [], "measurements": -1}},
    "options that are none": {"options": 1},
    "another version": {"schema_version": 99},
    **{f"the file {name}": {"files": {name: FACTS}} for name in OUTSIDE},
}


@pytest.fixture(scope="module")
def exported(bert, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported") / "out"
    onnxfn.export(onnxfn.spec_for(bert, "fill-mask"), bert, folder, check=False)
    return folder


@pytest.mark.parametrize("fields", MALFORMED.values(), ids=MALFORMED)
def test_a_report_that_cannot_be_used_is_as_none_for_every_reader(fields, tmp_path):
    (tmp_path / REPORT_FILE).write_text(report_text(**fields))
    assert recorded(tmp_path) is None
    (fault,) = onnxfn.verify(tmp_path).faults
    assert "cannot be used" in fault
    assert not is_unchanged(JobResult("model", str(tmp_path), "exported", digest="d"), "d")
    (tmp_path / CARD).write_text("mine")
    assert write_card({}, tmp_path, tmp_path) == ()


def test_a_result_whose_report_is_complete_is_unchanged(tmp_path):
    (tmp_path / REPORT_FILE).write_text(report_text())
    assert is_unchanged(JobResult("model", str(tmp_path), "exported", digest="d"), "d")


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_a_report_names_outside_its_folder_is_not_saved(name, exported, tmp_path):
    folder = Path(shutil.copytree(exported, tmp_path / "a" / "out"))
    (tmp_path / "secret").write_text("secret")
    (folder / REPORT_FILE).write_text(report_text(files={name: FACTS}))
    saved = onnxfn.load(folder).save(tmp_path / "b" / "saved")
    assert [os.path.basename(file) for file in saved.files] == ["model.onnx"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "secret"]


@pytest.mark.parametrize(
    ("location", "fault"),
    [("../secret", OUTSIDE_FAULT), ("link", LINK), ("pipe", "is not a regular file"), ("/secret", OUTSIDE_FAULT)],
)
def test_external_data_outside_the_folder_is_not_loaded(location, fault, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "secret").write_bytes(bytes(16))
    (out / "link").symlink_to("../secret")
    os.mkfifo(out / "pipe")
    write_other(out / "model.onnx", location)
    words = f"external data '{location}', which {fault}"
    assert words in refusal(InvalidSpec, onnxfn.load, out)
    assert words in refusal(CheckFailed, open_session, out / "model.onnx")
    assert words in refusal(InvalidSpec, graph_summary, out / "model.onnx")
    (out / REPORT_FILE).write_text(report_text(files={"model.onnx": FACTS}, graphs={"model.onnx": {}}))
    assert any(words in fault for fault in onnxfn.verify(out).faults)


def test_a_graph_that_is_a_link_out_of_the_folder_or_a_named_pipe_is_not_opened(exported, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "model.onnx").symlink_to(exported / "model.onnx")
    assert LINK in refusal(InvalidSpec, onnxfn.load, tmp_path / "out")
    assert LINK in refusal(InvalidSpec, onnxfn.generate, tmp_path / "out", [[1]])
    (tmp_path / "out" / "config.json").symlink_to(exported / "config.json")
    assert LINK in refusal(LoadFailed, onnxfn.generate, tmp_path / "out", [[1]])
    (tmp_path / "itself.onnx").symlink_to("itself.onnx")
    assert "is not an ONNX file" in refusal(InvalidSpec, graph_summary, tmp_path / "itself.onnx")
    (tmp_path / "out" / "model.onnx").unlink()
    os.mkfifo(tmp_path / "out" / "model.onnx")
    assert "is not a regular file" in refusal(InvalidSpec, onnxfn.load, tmp_path / "out")
    (tmp_path / "out" / REPORT_FILE).write_text(report_text())
    assert "is not a regular file" in str(onnxfn.verify(tmp_path / "out"))


def test_the_caller_may_name_a_link(exported, tmp_path):
    (tmp_path / "link.onnx").symlink_to(exported / "model.onnx")
    (tmp_path / "folder").symlink_to(exported)
    assert onnxfn.load(tmp_path / "link.onnx").inputs == onnxfn.load(tmp_path / "folder").inputs


@pytest.mark.parametrize("target", ["../../secret", "."])
def test_a_file_of_a_report_that_is_a_link_out_of_its_folder_is_not_saved(target, exported, tmp_path):
    folder = Path(shutil.copytree(exported, tmp_path / "a" / "out"))
    (tmp_path / "secret").write_text("secret")
    report = json.loads((folder / REPORT_FILE).read_text())
    report["files"]["notes/secret"] = FACTS
    (folder / REPORT_FILE).write_text(json.dumps(report))
    if target == ".":
        (folder / "notes").symlink_to(tmp_path)
    else:
        (folder / "notes").mkdir()
        (folder / "notes" / "secret").symlink_to(f"../{target}")
    assert f"names 'notes/secret', which {LINK}" in str(onnxfn.verify(folder))
    saved = onnxfn.load(folder).save(tmp_path / "saved")
    assert [os.path.basename(file) for file in saved.files] == ["model.onnx"]
    assert "is not uploaded" in refusal(InvalidSpec, verified, folder)


def test_a_report_that_is_a_link_or_a_named_pipe_is_not_read(exported, tmp_path):
    for folder in (tmp_path / "link", tmp_path / "pipe"):
        folder.mkdir()
    (tmp_path / "link" / REPORT_FILE).symlink_to(exported / REPORT_FILE)
    os.mkfifo(tmp_path / "pipe" / REPORT_FILE)
    for folder in tmp_path.iterdir():
        assert recorded(folder) is None
        assert is_foreign_report(folder / REPORT_FILE)


def test_digests_of_files_outside_are_not_read(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(digests, "written_by_onnxfn", lambda _: True)
    monkeypatch.setattr(digests, "metadata", lambda _: {digests.DIGESTS_KEY: json.dumps({"../secret": "0"})})
    monkeypatch.setattr(digests, "digest_at_end", opened.append)
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "out").mkdir()
    assert digests.foreign_data(tmp_path / "out" / "model.onnx") == ("../secret",)
    assert opened == []


def test_of_a_pipeline_only_parts_in_its_folder_are_pushed(exported, tmp_path):
    folder = tmp_path / "pipeline"
    shutil.copytree(exported, folder / "unet")
    (folder / "model_index.json").write_text(json.dumps({"tokenizer": [], "elsewhere": [], "../private": []}))
    for name in ("tokenizer", "notes", "../private"):
        (folder / name).mkdir()
        (folder / name / "tokenizer.json").write_text("{}")
    shutil.copytree(exported, tmp_path / "private" / "export")
    (folder / "elsewhere").symlink_to("../private")
    (folder / "linked").symlink_to("../private/export")
    names = {file.relative_to(folder).as_posix() for file in uploaded_files(folder)}
    own = {f"unet/{file.name}" for file in exported.iterdir()}
    assert names == {*own, "model_index.json", "tokenizer/tokenizer.json"}
    assert verified(folder).files == len(own) - 1


@pytest.mark.parametrize("text", ['{"../victim": []}', "[1]", "3", "{", '["../victim"]'])
def test_the_index_of_a_pipeline_names_no_folder_outside(text, tmp_path):
    (tmp_path / "victim").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / INDEX_FILE).write_text(text)
    assert _earlier_parts(tmp_path / "out") == set()


def test_a_graph_that_is_a_link_out_of_the_folder_is_not_stale(exported, tmp_path):
    shutil.copytree(exported, tmp_path / "out")
    (tmp_path / "out" / "model.onnx").rename(tmp_path / "theirs.onnx")
    (tmp_path / "out" / "model.onnx").symlink_to("../theirs.onnx")
    assert tmp_path / "out" / "model.onnx" not in stale_files(Destination(tmp_path / "out"), ())


def test_a_missing_file_is_named_before_anything_is_saved(exported, tmp_path):
    shutil.copytree(exported, tmp_path / "out")
    loaded = onnxfn.load(tmp_path / "out")
    (tmp_path / "out" / "config.json").unlink()
    assert f"no file {tmp_path / 'out' / 'config.json'}, " in refusal(ModelNotFound, loaded.save, tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


@pytest.mark.parametrize(("key", "value"), [("offset", "x"), ("length", "1.5"), ("length", "-1")])
def test_external_data_with_other_numbers_is_refused_in_one_line(key, value, tmp_path):
    write_other(tmp_path / "model.onnx", "data")
    (tmp_path / "data").write_bytes(bytes(24))
    model = onnx.load(tmp_path / "model.onnx", load_external_data=False)
    model.graph.initializer[0].external_data.add(key=key, value=value)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    assert "cannot load model.onnx" in refusal(CheckFailed, open_check_session, tmp_path / "model.onnx")


@pytest.mark.parametrize("text", ["{", "[1]", "[" * 100_000])
def test_a_configuration_that_is_damaged_is_named(text, exported, tmp_path):
    shutil.copytree(exported, tmp_path / "out")
    (tmp_path / "out" / "generation_config.json").write_text(text)
    assert "generation_config.json" in refusal(InvalidSpec, _start_token, tmp_path / "out")

"""The files of an earlier export that are not replaced are stale; files of other programs and checkpoints never are."""

import onnx
import pytest
from exported_folders import write, write_other, write_set
from reports import report_text

from onnxfn.export.publish.publishing import stale_files
from onnxfn.export.publish.staging import Destination
from onnxfn.export.report.report_file import REPORT_FILE
from onnxfn.weights.digests import sha256_of


def stale(folder, *published):
    paths = stale_files(Destination(folder), [folder / name for name in published])
    return [path.relative_to(folder).as_posix() for path in paths]


def test_onnx_files_of_onnxfn_in_the_folders_of_all_layouts_are_stale(tmp_path):
    write(tmp_path / "decoder_model.onnx", "decoder_model.onnx_data")
    write(tmp_path / "onnx" / "model.onnx", "model.data")
    write(tmp_path / "model.onnx")
    assert stale(tmp_path, "model.onnx") == [
        "decoder_model.onnx",
        "decoder_model.onnx_data",
        "onnx/model.onnx",
        "onnx/model.data",
    ]


def test_external_data_of_a_replaced_file_is_stale_whoever_wrote_the_file(tmp_path):
    write_other(tmp_path / "model.onnx", "weights.bin")
    (tmp_path / "weights.bin").write_text("weights")
    assert stale(tmp_path, "model.onnx") == ["weights.bin"]
    assert stale(tmp_path, "model.onnx", "weights.bin") == []


def test_files_of_other_programs_are_not_stale(tmp_path):
    write(tmp_path / "model.onnx", "model.onnx_data")
    write_other(tmp_path / "other.onnx", "other.data")
    write_other(tmp_path / "quantized.onnx", producer="onnxfn")  # saved by another program, which keeps the producer
    for name in ("notes.txt", "other.data", "model.py", "model.onnx.bak", "model.onnx_data.txt"):
        (tmp_path / name).write_text("mine")
    for name in ("broken.onnx", "empty.onnx"):
        (tmp_path / name).write_bytes(b"\x0fno protobuf" if name == "broken.onnx" else b"")
    assert stale(tmp_path, "model.onnx") == ["model.onnx_data"]


def test_data_of_a_checkpoint_outside_the_folder_or_of_another_file_is_never_stale(tmp_path):
    out = tmp_path / "out"
    write(out / "model.onnx", "model.safetensors")
    write(out / "decoder.onnx", "model-00001-of-00002.safetensors")
    write(out / "used.onnx", "used.onnx_data")
    write_other(out / "optimized.onnx", "used.onnx_data")
    write_other(out / "encoder.onnx", "../weights.bin")
    for name in ("pytorch_model.bin", "../weights.bin"):
        (out / name).write_text("mine")
    assert stale(out, "encoder.onnx", "model.onnx", "used.onnx") == ["decoder.onnx"]


def test_a_target_that_is_a_file_leaves_its_neighbours_alone(tmp_path):
    write(tmp_path / "a.onnx", "a.data")
    write(tmp_path / "b.onnx", "b.data")
    write(tmp_path / "onnx" / "c.onnx")
    destination = Destination(tmp_path / "a.onnx")
    assert stale_files(destination, [tmp_path / "a.onnx"]) == (tmp_path / "a.data",)


def test_a_file_of_onnxfn_is_not_one_any_more_when_another_program_saves_it(tmp_path):
    write(tmp_path / "model.onnx")
    assert stale(tmp_path) == ["model.onnx"]
    onnx.save(onnx.load(tmp_path / "model.onnx"), tmp_path / "model.onnx")
    assert stale(tmp_path) == []


# Side files


SIDE_FILES = {
    "of an earlier export": (
        ["model.onnx", "config.json", "vocab.txt", "generation_config.json"],
        "merges.txt",
        ["model.onnx", "model.onnx_data", "config.json", REPORT_FILE],
        ["generation_config.json", "vocab.txt"],
    ),
    "one that was changed": (["vocab.txt", "vocab.json"], "vocab.txt", [], ["vocab.json", REPORT_FILE]),
    "those of a checkpoint": (["vocab.txt", "config.json"], "model-00001-of-00002.safetensors", [], [REPORT_FILE]),
    "files of other kinds": (["notes.txt", "train.py"], "merges.txt", [], [REPORT_FILE]),
}
"""The files of an export, a file that is then written, those of the next export, and those that are stale."""


@pytest.mark.parametrize(("names", "own", "published", "expected"), SIDE_FILES.values(), ids=SIDE_FILES)
def test_side_files_of_an_earlier_export_are_stale_as_they_were_written(tmp_path, names, own, published, expected):
    files = [file.name for file in write_set(tmp_path, names, 0)]
    facts = {name: {"bytes": 1, "sha256": sha256_of(tmp_path / name)} for name in files}
    (tmp_path / REPORT_FILE).write_text(report_text(files=facts))
    (tmp_path / own).write_text("mine")
    assert stale(tmp_path, *published) == expected


@pytest.mark.parametrize("files", [[], 1, {"vocab.txt": 1}, {"vocab.txt": {}}, {"vocab.txt": [1]}, {"../victim": {}}])
def test_a_report_with_other_fields_makes_no_file_stale(tmp_path, files):
    (tmp_path / "vocab.txt").write_text("mine")
    (tmp_path / REPORT_FILE).write_text(report_text(files=files))
    assert stale(tmp_path) == [REPORT_FILE]

"""Destinations: all files appear or none, and the files of an earlier export that are not replaced are deleted."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxfn.export.destination import Destination, publish, staging_folder, stale_files
from onnxfn.weights.protobuf import write_model

WEIGHT = np.arange(6, dtype=np.float32)


def model(producer="onnxfn"):
    value = helper.make_tensor_value_info("y", TensorProto.FLOAT, [6])
    node = helper.make_node("Identity", ["weight"], ["y"])
    graph = helper.make_graph([node], "main", [], [value], [numpy_helper.from_array(WEIGHT, "weight")])
    return helper.make_model(graph, producer_name=producer)


def with_external_data(proto, name):
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=name)
    return proto


def write(path, data=None):
    """Writes a model as an export does, and its external data file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    proto = with_external_data(model(), data) if data else model()
    with path.open("wb") as file:
        write_model(proto, file, {})
    if data:
        (path.parent / data).write_bytes(WEIGHT.tobytes())


def write_other(path, data=None, producer="pytorch"):
    """Writes a model as another program does."""
    path.write_bytes((with_external_data(model(producer), data) if data else model(producer)).SerializeToString())


def staged(staging, *names):
    files = [staging / name for name in names]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("new")
    return files


def content(folder):
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def stale(folder, *published):
    paths = stale_files(Destination(folder), [folder / name for name in published])
    return [path.relative_to(folder).as_posix() for path in paths]


# Staging and publishing


def test_a_new_folder_appears_by_one_rename_with_the_usual_permissions(tmp_path):
    out = tmp_path / "deep" / "out"
    with staging_folder(out) as staging:
        files = staged(staging, "model.onnx", "onnx/model.onnx")
        (staging / "left.data").write_text("not published")
        inode = staging.stat().st_ino
        published = publish(files, staging, out, [Destination(out)])
    assert published == (out / "model.onnx", out / "onnx" / "model.onnx")
    assert out.stat().st_ino == inode
    (tmp_path / "plain").mkdir()
    assert stat.S_IMODE(out.stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)
    assert set(content(tmp_path)) == {"deep/out/model.onnx", "deep/out/onnx/model.onnx"}


def test_files_are_added_to_a_folder_that_exists(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with staging_folder(tmp_path) as staging:
        publish(staged(staging, "model.onnx"), staging, tmp_path, [Destination(tmp_path)])
    assert content(tmp_path) == {"notes.txt": b"mine", "model.onnx": b"new"}


def test_an_error_before_publishing_leaves_no_folder(tmp_path):
    with pytest.raises(ZeroDivisionError), staging_folder(tmp_path / "deep" / "out") as staging:
        staged(staging, "model.onnx")
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("fails_at", [1, 2, 3, 4, 5])
def test_an_error_while_publishing_restores_every_file(tmp_path, monkeypatch, fails_at):
    out = tmp_path / "out"
    write(out / "unet" / "model.onnx", "model.onnx_data")
    write(out / "vae" / "model.onnx")
    (out / "model_index.json").write_text("old")
    before = content(tmp_path)
    replace, calls = Path.replace, []

    def failing(path, destination):
        calls.append(path)
        if len(calls) == fails_at:
            raise OSError("disk full")
        return replace(path, destination)

    with staging_folder(out) as staging:
        files = staged(staging, "unet/model.onnx", "new/model.onnx", "model_index.json")
        monkeypatch.setattr(Path, "replace", failing)
        with pytest.raises(OSError, match="disk full"):
            publish(files, staging, out, [Destination(out / name) for name in ("unet", "vae", "new")])
    assert content(tmp_path) == before
    assert not (out / "new").exists()


def test_publishing_over_an_earlier_export_replaces_all_of_it(tmp_path):
    write(tmp_path / "unet" / "model.onnx", "model.onnx_data")
    write(tmp_path / "vae" / "model.onnx")
    with staging_folder(tmp_path) as staging:
        files = staged(staging, "unet/model.onnx")
        publish(files, staging, tmp_path, [Destination(tmp_path / name) for name in ("unet", "vae")])
    assert content(tmp_path) == {"unet/model.onnx": b"new"}
    assert not (tmp_path / "vae").exists()


# Stale files


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


def test_external_data_that_another_file_uses_is_not_stale(tmp_path):
    write(tmp_path / "model.onnx", "model.onnx_data")
    write_other(tmp_path / "optimized.onnx", "model.onnx_data")
    assert stale(tmp_path, "model.onnx") == []


def test_a_checkpoint_is_never_stale(tmp_path):
    write(tmp_path / "model.onnx", "model.safetensors")
    write(tmp_path / "decoder.onnx", "model-00001-of-00002.safetensors")
    (tmp_path / "pytorch_model.bin").write_text("weights")
    assert stale(tmp_path, "model.onnx") == ["decoder.onnx"]


def test_data_outside_the_folder_is_never_stale(tmp_path):
    write(tmp_path / "out" / "model.onnx")
    write_other(tmp_path / "out" / "encoder.onnx", "../weights.bin")
    (tmp_path / "weights.bin").write_text("mine")
    assert stale(tmp_path / "out", "encoder.onnx", "model.onnx") == []


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

"""Weights that lie unchanged in a checkpoint: bytes decide, and names decide between equal tensors."""

from importlib import import_module
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal
from safetensors.torch import load_file, save_file

from onnxfn.specs.errors import ModelNotFound
from onnxfn.weights.checkpoint_links import ONNX_DTYPES, arrays, entries, entries_by_bytes
from onnxfn.weights.chunks import CHUNK_BYTES

weight = ir.tensor_adapters.TorchTensor


def matches_by_bytes(tmp_path, stored, tensors):
    save_file(stored, tmp_path / "model.safetensors")
    matches = entries_by_bytes({name: weight(raw) for name, raw in tensors.items()}, entries(tmp_path))
    return {name: entry.name for name, entry in matches.items()}


def test_a_stored_tensor_is_matched_under_any_name(tmp_path):
    raw = torch.randn(40, 30)
    stored = {"bert.layer.weight": raw, "other": torch.randn(40, 30)}
    assert matches_by_bytes(tmp_path, stored, {"layer.weight": raw, "val_7": raw.clone(), "flat": raw.reshape(-1)}) == {
        "layer.weight": "bert.layer.weight",
        "val_7": "bert.layer.weight",
        "flat": "bert.layer.weight",
    }


def test_a_transposed_converted_or_changed_tensor_has_no_match(tmp_path):
    raw = torch.randn(40, 30)
    changed = raw.clone()
    changed[-1, -1] += 1
    others = {"half": raw.half(), "changed": changed, "bits": raw.view(torch.int32)}
    assert matches_by_bytes(tmp_path, {"raw": raw}, {"transposed": raw.t(), "slice": raw[:20], **others}) == {}


def test_of_several_equal_tensors_the_one_with_the_same_name_is_matched(tmp_path):
    stored = {f"model.layers.{number}.norm": torch.ones(300) for number in range(3)}
    tensors = {f"layers.{number}.norm": torch.ones(300) for number in (2, 0, 1)}
    assert matches_by_bytes(tmp_path, stored, tensors) == {name: f"model.{name}" for name in tensors}


def test_the_comparison_calls_a_function_after_each_chunk(tmp_path):
    raw, calls = torch.randn(3, CHUNK_BYTES // 4), []
    save_file({"raw": raw}, tmp_path / "model.safetensors")
    assert entries_by_bytes({"raw": weight(raw)}, entries(tmp_path), lambda: calls.append(1))
    assert len(calls) == 3


def test_nan_matches_by_its_bytes(tmp_path):
    raw = torch.full((9, 9), float("nan"))
    assert matches_by_bytes(tmp_path, {"raw": raw}, {"raw": raw}) == {"raw": "raw"}


def test_an_array_matches_by_its_bytes_too(tmp_path):
    save_file({"a": torch.ones(300, 2), "b": torch.ones(300, 2)}, tmp_path / "model.safetensors")
    stored = entries(tmp_path)
    mapped = arrays(stored)
    others = {
        "constant": np.ones((300, 2), np.float32),
        "slice": mapped["a"][:200],
        "transposed": mapped["b"].T,
        "whole": np.ones((300, 2), np.int32),
    }
    matches = entries_by_bytes({name: ir.Tensor(array) for name, array in {**mapped, **others}.items()}, stored)
    assert {name: entry.name for name, entry in matches.items()} == {"a": "a", "b": "b", "constant": "a"}


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(1, 40), st.booleans()), min_size=1, max_size=8))
def test_a_match_has_the_bytes_of_the_tensor(tmp_path_factory, tensors):
    folder = tmp_path_factory.mktemp("checkpoint")
    raws = {
        f"t{number}": torch.full((length, 2), fill, dtype=torch.float32 if real else torch.int32)
        for number, (fill, length, real) in enumerate(tensors)
    }
    save_file(raws, folder / "model.safetensors")
    content = (folder / "model.safetensors").read_bytes()
    matches = entries_by_bytes({name: weight(raw) for name, raw in raws.items()}, entries(folder))
    assert {name: entry.name for name, entry in matches.items()} == {name: name for name in raws}
    found = {name: content[entry.offset : entry.offset + entry.length] for name, entry in matches.items()}
    assert all(own == raws[name].numpy().tobytes() for name, own in found.items())


def test_arrays_are_views_of_the_stored_tensors(tmp_path):
    stored = {"a": torch.randn(4, 3), "b": torch.arange(5), "c": torch.tensor(True), "d": torch.zeros(0, 2)}
    save_file(stored, tmp_path / "model.safetensors")
    read = arrays(entries(tmp_path))
    assert all(np.array_equal(read[key], raw.numpy()) and read[key].shape == raw.shape for key, raw in stored.items())
    assert not any(array.flags.owndata for array in read.values())


# The tensors in safetensors files, against the safetensors library

TENSORS = {
    "model.a": torch.arange(6.0).view(2, 3),
    "model.b": torch.arange(5, dtype=torch.int8),
    "c": torch.ones(4, dtype=torch.bfloat16),
    "d": torch.tensor([True, False]),
    "e": torch.zeros(0, 3),
}


def test_every_entry_has_the_bytes_of_its_tensor(tmp_path):
    save_file(TENSORS, tmp_path / "model.safetensors", metadata={"format": "pt"})
    by_name = {entry.name: entry for entry in entries(tmp_path)}
    assert set(by_name) == set(TENSORS)
    content = (tmp_path / "model.safetensors").read_bytes()
    for name, entry in by_name.items():
        assert content[entry.offset : entry.offset + entry.length] == TENSORS[name].view(torch.uint8).numpy().tobytes()
    assert {name: entry.dtype for name, entry in by_name.items()} == {
        "model.a": "FLOAT",
        "model.b": "INT8",
        "c": "BFLOAT16",
        "d": "BOOL",
        "e": "FLOAT",
    }


def test_every_dtype_is_one_of_onnx():
    assert {name for name in ONNX_DTYPES.values() if name not in ir.DataType.__members__} == set()


def test_files_of_the_model_come_first_and_all_shards_are_read(tmp_path):
    for number, file in enumerate(("adapter", "model-00002-of-00002", "model-00001-of-00002")):
        save_file({f"t{number}": torch.ones(2)}, tmp_path / f"{file}.safetensors")
    assert [entry.name for entry in entries(tmp_path)] == ["t2", "t1", "t0"]


def test_the_error_for_a_folder_without_safetensors_lists_its_files(tmp_path):
    (tmp_path / "pytorch_model.bin").write_text("")
    assert refusal(ModelNotFound, entries, tmp_path) == (
        f"weight storage 'link' needs *.safetensors files; {tmp_path} has none; it has: pytorch_model.bin; "
        "use 'copy' or 'share'"
    )
    assert "it has: no such folder" in refusal(ModelNotFound, entries, tmp_path / "nowhere")


@pytest.mark.parametrize(
    "content", [b"", b"\xff" * 32, np.uint64(3).tobytes() + b"abc", np.uint64(3).tobytes() + b"[1]"]
)
def test_a_file_without_a_header_is_refused(tmp_path, content):
    (tmp_path / "model.safetensors").write_bytes(content)
    message = refusal(ModelNotFound, entries, tmp_path)
    assert (
        message == f"{tmp_path / 'model.safetensors'} is not a safetensors file: it does not begin with a JSON header"
    )


def test_a_sparse_checkpoint_has_random_numbers_in_each_weight_and_takes_no_disk(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import_module("large_checkpoints").write_linked("llama-21b-f16", tmp_path, num_hidden_layers=1)
    files = [*tmp_path.glob("*.safetensors")]
    assert sum(file.stat().st_size for file in files) > 5e9
    assert sum(512 * file.stat().st_blocks for file in files) < 1e6
    layer = load_file(tmp_path / "model-00001-of-00002.safetensors")
    assert all(tensor.isfinite().all() and tensor.flatten()[0] != 0 for tensor in layer.values() if tensor.ndim == 1)

"""The tensors in safetensors files, against the safetensors library."""

import numpy as np
import pytest
import torch
from refusals import refusal
from safetensors.torch import save_file

from onnxfn.specs.errors import ModelNotFound
from onnxfn.weights.checkpoint_links import ONNX_DTYPES, entries

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
    import onnx_ir

    assert {name for name in ONNX_DTYPES.values() if name not in onnx_ir.DataType.__members__} == set()


def test_files_of_the_model_come_first_and_all_shards_are_read(tmp_path):
    for number, file in enumerate(("adapter", "model-00002-of-00002", "model-00001-of-00002")):
        save_file({f"t{number}": torch.ones(2)}, tmp_path / f"{file}.safetensors")
    assert [entry.name for entry in entries(tmp_path)] == ["t2", "t1", "t0"]


def test_the_error_for_a_folder_without_safetensors_lists_its_files(tmp_path):
    (tmp_path / "pytorch_model.bin").write_text("")
    message = refusal(ModelNotFound, entries, tmp_path)
    assert message == (
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

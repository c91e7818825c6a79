"""Which weights lie unchanged in a checkpoint: bytes decide, and names between equals."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from onnxfn.weights.checkpoint_links import arrays, entries_by_bytes, entries_by_name
from onnxfn.weights.safetensors import entries


def weight(raw):
    return ir.tensor_adapters.TorchTensor(raw)


def lies(tmp_path, stored, asked):
    save_file(stored, tmp_path / "model.safetensors")
    places = entries_by_bytes({name: weight(raw) for name, raw in asked.items()}, entries(tmp_path))
    return {name: one.name for name, one in places.items()}


def test_what_lies_there_is_found_whatever_it_is_called(tmp_path):
    raw = torch.randn(40, 30)
    stored = {"bert.layer.weight": raw, "other": torch.randn(40, 30)}
    assert lies(tmp_path, stored, {"layer.weight": raw, "val_7": raw.clone(), "flat": raw.reshape(-1)}) == {
        "layer.weight": "bert.layer.weight",
        "val_7": "bert.layer.weight",
        "flat": "bert.layer.weight",
    }


def test_what_was_transposed_converted_or_changed_is_not_found(tmp_path):
    raw = torch.randn(40, 30)
    changed = raw.clone()
    changed[-1, -1] += 1
    asked = {"turned": raw.t(), "half": raw.half(), "changed": changed, "part": raw[:20], "bits": raw.view(torch.int32)}
    assert lies(tmp_path, {"raw": raw}, asked) == {}


def test_of_several_that_are_equal_the_one_of_the_name_is_taken(tmp_path):
    stored = {f"model.layers.{number}.norm": torch.ones(300) for number in range(3)}
    asked = {f"layers.{number}.norm": torch.ones(300) for number in (2, 0, 1)}
    assert lies(tmp_path, stored, asked) == {name: f"model.{name}" for name in asked}


def test_values_that_do_not_equal_themselves_are_the_same_bytes(tmp_path):
    raw = torch.full((9, 9), float("nan"))
    assert lies(tmp_path, {"raw": raw}, {"raw": raw}) == {"raw": "raw"}


def test_a_constant_of_the_graph_is_not_looked_for(tmp_path):
    save_file({"raw": torch.ones(300)}, tmp_path / "model.safetensors")
    assert entries_by_bytes({"raw": ir.tensor(np.ones(300, np.float32))}, entries(tmp_path)) == {}


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(1, 40), st.booleans()), min_size=1, max_size=8))
def test_what_is_found_has_the_bytes_that_were_asked_for(tmp_path_factory, tensors):
    folder = tmp_path_factory.mktemp("checkpoint")
    raws = {
        f"t{number}": torch.full((length, 2), fill, dtype=torch.float32 if real else torch.int32)
        for number, (fill, length, real) in enumerate(tensors)
    }
    save_file(raws, folder / "model.safetensors")
    content = (folder / "model.safetensors").read_bytes()
    places = entries_by_bytes({name: weight(raw) for name, raw in raws.items()}, entries(folder))
    assert {name: one.name for name, one in places.items()} == {name: name for name in raws}
    assert all(
        content[one.offset : one.offset + one.length] == raws[name].numpy().tobytes() for name, one in places.items()
    )


def read_from(tmp_path, stored, asked, names=None):
    save_file(stored, tmp_path / "model.safetensors")
    bound = {name: weight(raw) for name, raw in asked.items()}
    stored_as = {one: one.name for one in entries(tmp_path)}
    found = entries_by_name({name: (name,) for name in asked} | (names or {}), bound, stored_as)
    return {name: one.name for name, one in found.items()}


def test_a_tensor_was_read_from_the_one_of_its_name_that_equals_it(tmp_path):
    raw = torch.randn(40, 30)
    stored = {"bert.layer.weight": raw, "other": raw.clone(), "changed": raw + 1, "flat": raw.reshape(-1).clone()}
    asked = dict.fromkeys(("layer.weight", "head.other", "changed", "flat", "nameless"), raw)
    assert read_from(tmp_path, stored, asked) == {"layer.weight": "bert.layer.weight", "head.other": "other"}


def test_of_two_that_are_called_alike_none_is_sure(tmp_path):
    raw = torch.ones(300)
    assert read_from(tmp_path, {"encoder.norm": raw, "decoder.norm": raw.clone()}, {"norm": raw}) == {}
    assert read_from(tmp_path, {"norm": raw}, {"encoder.norm": raw, "decoder.norm": raw}) == {}
    assert read_from(tmp_path, {"embed": raw, "head": raw.clone()}, {"embed": raw}, {"embed": ("embed", "head")}) == {}


def test_what_was_converted_or_turned_was_read_from_nothing(tmp_path):
    raw = torch.randn(30, 30)
    assert read_from(tmp_path, {"a": raw, "b": raw.clone()}, {"a": raw.half(), "b": raw.t()}) == {}


def test_arrays_look_at_what_is_stored(tmp_path):
    stored = {"a": torch.randn(4, 3), "b": torch.arange(5), "c": torch.tensor(True), "d": torch.zeros(0, 2)}
    save_file(stored, tmp_path / "model.safetensors")
    made = arrays(entries(tmp_path))
    assert all(
        np.array_equal(made[name], raw.numpy()) and made[name].shape == raw.shape for name, raw in stored.items()
    )
    assert not any(array.flags.owndata for array in made.values())

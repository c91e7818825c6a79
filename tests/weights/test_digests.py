"""A graph states the digest of its external data, and the external data ends with it."""

import hashlib
import io
import json
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal

import onnxfn
from onnxfn.run.sessions import open_session
from onnxfn.weights import digests
from onnxfn.weights.onnx_files import external_data_names

WRITE = onnxfn.WriteOptions(external_data_threshold=0)


def with_other_weights(model):
    for parameter in model.parameters():
        parameter.data.mul_(1.5)
    return model


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digests")
    spec, model = onnxfn.spec_for("t5", "text2text-generation-with-past"), tiny.model("t5", "AutoModelForSeq2SeqLM")
    onnxfn.export(spec, model, folder / "a", check=False, write=WRITE)
    onnxfn.export(spec, with_other_weights(model), folder / "b", check=False, write=WRITE)
    return folder


@given(st.lists(st.binary()))
def test_the_digest_is_that_of_the_content_and_stands_at_its_end(chunks):
    file = io.BytesIO()
    with ThreadPoolExecutor(1) as pool:
        of_chunks, of_file = digests.write_with_digest(digests.HashedFile(file, pool), chunks)
    content = b"".join(chunks)
    assert file.getvalue()[: -digests.END_BYTES] == content
    assert of_chunks == hashlib.sha256(content).hexdigest()
    assert of_file == hashlib.sha256(file.getvalue()).hexdigest()
    assert file.getvalue().endswith(bytes.fromhex(of_chunks))


@pytest.mark.parametrize("content", [b"", b"short", bytes(digests.END_BYTES), os.urandom(500)])
def test_a_file_of_another_program_has_no_digest_at_its_end(tmp_path, content):
    (tmp_path / "data").write_bytes(content)
    assert digests.digest_at_end(tmp_path / "data") == ""
    assert digests.digest_at_end(tmp_path / "missing") == ""


def test_every_graph_states_the_digests_of_the_files_that_it_uses(exports):
    files = sorted((exports / "a").glob("*.onnx"))
    assert [file.name for file in files] == ["decoder_model_merged.onnx", "encoder_model.onnx"]
    for file in files:
        stated = digests.stated_digests(file)
        assert set(stated) == external_data_names(file)
        for name, digest in stated.items():
            content = (file.parent / name).read_bytes()
            assert (
                hashlib.sha256(content[: -digests.END_BYTES]).hexdigest()
                == digest
                == digests.digest_at_end(file.parent / name)
            )
            assert digests.sha256_of(file.parent / name) == hashlib.sha256(content).hexdigest()
        assert digests.foreign_data(file) == ()


@pytest.mark.parametrize("exchanged", [f"{name}_data" for name in ("encoder_model.onnx", "decoder_model_merged.onnx")])
def test_a_mixture_of_two_exports_is_refused(exports, tmp_path, exchanged):
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    for file in (exports / "a").iterdir():
        (mixed / file.name).hardlink_to(exports / ("b" if file.name == exchanged else "a") / file.name)
    message = refusal(onnxfn.CheckFailed, onnxfn.generate, mixed, np.array([[3, 4]]), max_new_tokens=2, start=0)
    assert f"{exchanged} in {mixed} is of another export than" in message
    assert onnxfn.generate(exports / "a", np.array([[3, 4]]), max_new_tokens=2, start=0).shape == (1, 3)


def test_validate_refuses_a_mixture(tmp_path):
    spec, model = onnxfn.spec_for("bert", "fill-mask"), tiny.model("bert", "AutoModelForMaskedLM")
    onnxfn.export(spec, model, tmp_path / "a", check=False, write=WRITE)
    assert onnxfn.validate(spec, model, tmp_path / "a").passed
    onnxfn.export(spec, with_other_weights(model), tmp_path / "b", check=False, write=WRITE)
    (tmp_path / "b" / "model.onnx_data").replace(tmp_path / "a" / "model.onnx_data")
    assert "model.onnx_data" in refusal(onnxfn.CheckFailed, onnxfn.validate, spec, model, tmp_path / "a")


def test_the_graph_of_another_program_is_not_refused(tmp_path):
    """A program that quantizes weights copies the metadata of the graph, and writes external data of its own."""
    model = torch.nn.Linear(40, 40)
    spec = onnxfn.derived(model, sample={"input": torch.randn(2, 40)})
    onnxfn.export(spec, model, tmp_path / "out", check=False, write=WRITE)
    proto = onnx.load(tmp_path / "out" / "model.onnx")
    assert json.loads({entry.key: entry.value for entry in proto.metadata_props}[digests.DIGESTS_KEY])
    onnx.save(proto, tmp_path / "out" / "model.onnx", save_as_external_data=True, location="model.onnx_data")
    assert digests.stated_digests(tmp_path / "out" / "model.onnx") == {}
    open_session(tmp_path / "out" / "model.onnx")

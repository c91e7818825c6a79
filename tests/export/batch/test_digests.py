"""What a job's digest depends on: an equal digest means that a second run would write the same files."""

import os

import pytest
from attrs import evolve
from exported_folders import staged

from onnxfn import BuildOptions, ExportRequest, Floors, WriteOptions, text_encoder
from onnxfn.export.jobs import identity
from onnxfn.export.jobs.identity import TEXT_BYTES, job_digest


@pytest.fixture
def checkpoint(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "bert"}')
    (folder / "model.safetensors").write_bytes(bytes(TEXT_BYTES + 1))
    return folder


@pytest.fixture
def job(checkpoint):
    return ExportRequest(checkpoint, "out")


OTHER = {
    "path": "elsewhere",
    "spec": text_encoder,
    "edits": {"task": "fill-mask"},
    "dtypes": ("float16",),
    "decoders": "separate",
    "check": "none",
    "floors": Floors(agreement=0.5),
    "dequantize": True,
    "trust_remote_code": True,
    "write": WriteOptions(layout="hub", weight_storage="link"),
    "build": BuildOptions(pretranspose=False),
}
"""A field of a job -> another value of it."""


@pytest.mark.parametrize("field", OTHER)
def test_another_option_is_another_digest(field, job, checkpoint):
    assert job_digest(evolve(job, **{field: OTHER[field]}), checkpoint) != job_digest(job, checkpoint)


def test_where_templates_lie_and_whether_files_are_replaced_change_nothing(job, checkpoint, tmp_path):
    other = evolve(job, overwrite=True, build=BuildOptions(template_cache=tmp_path / "cache"))
    assert job_digest(other, checkpoint) == job_digest(job, checkpoint)


CHANGES = {
    "another text": lambda folder: (folder / "config.json").write_text('{"model_type": "albert"}'),
    "one more file": lambda folder: staged(folder, "tokenizer.json"),
    "a file in a folder": lambda folder: staged(folder, "1_Pooling/config.json"),
    "shorter weights": lambda folder: os.truncate(folder / "model.safetensors", TEXT_BYTES - 7),
    "weights that were touched": lambda folder: os.utime(folder / "model.safetensors", (1, 1)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_another_checkpoint_is_another_digest_and_one_with_a_touched_text_is_the_same(change, job, checkpoint):
    before = job_digest(job, checkpoint)
    os.utime(checkpoint / "config.json", (1, 1))
    assert job_digest(job, checkpoint) == before
    change(checkpoint)
    assert job_digest(job, checkpoint) != before


def test_other_versions_are_another_digest(job, checkpoint, monkeypatch):
    before = job_digest(job, checkpoint)
    monkeypatch.setattr(identity, "package_versions", lambda: ["torch 99"])
    assert job_digest(job, checkpoint) != before


def test_an_adapter_belongs_to_the_checkpoint(job, checkpoint, tmp_path):
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text('{"r": 4}')
    with_adapter = evolve(job, adapter=adapter)
    before = job_digest(with_adapter, checkpoint)
    (adapter / "adapter_config.json").write_text('{"r": 8}')
    assert job_digest(with_adapter, checkpoint) != before


def test_a_download_that_gets_its_weights_later_is_the_same_and_another_commit_is_not(tmp_path):
    """The first run downloads the weights after the digest, into the same folder."""
    job = ExportRequest("org/bert", "out")
    configs = staged(tmp_path, *(f"models--org--bert/snapshots/{commit}/config.json" for commit in "ab"))
    first, second = (config.parent for config in configs)
    before = job_digest(job, first)
    (first / "model.safetensors").write_bytes(b"weights")
    assert job_digest(job, first) == before
    assert job_digest(job, second) != before

"""Jobs whose model is no checkpoint of transformers: a GGUF file, a model of another library; and damaged ones."""

import json
import shutil
import struct
from importlib.util import find_spec
from types import SimpleNamespace

import others
import pytest
import transformers
from attrs import evolve
from fine_tunes import save_berts
from gguf import GGMLQuantizationType as Kind
from gguf_files import SHAPES, write_gguf

from onnxfn import ExportSpec, batch_preview, export_many, load, read_jobs
from onnxfn.export.batch.many import is_unchanged
from onnxfn.export.batch.memory import memory_need, stored_weights
from onnxfn.export.batch.server import job_result
from onnxfn.export.run import diffusers
from onnxfn.weights.checkpoint_links import file_entries


def jobs_of(folder, *lines):
    (folder / "jobs.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return read_jobs(folder / "jobs.jsonl", folder / "out", check="none")


def test_a_gguf_file_is_exported_once(tmp_path):
    write_gguf(tmp_path / "tiny.gguf", Kind.Q8_0)
    jobs = jobs_of(tmp_path, {"model": "tiny.gguf", "out": "tiny", "dequantize": True})
    [planned] = batch_preview(jobs).jobs
    stored = stored_weights(tmp_path / "tiny.gguf")
    assert (planned.status, planned.memory_bytes) == ("planned", memory_need(stored, "none"))
    assert stored.bytes == 4 * stored.elements > 4 * len(SHAPES)
    [result] = export_many(jobs, log=tmp_path / "log").jobs
    assert result.status == "exported", result.error
    assert load(tmp_path / "out" / "tiny").inputs["input_ids"] == {0: "batch_size", 1: "sequence_length"}
    [again] = export_many(jobs, log=tmp_path / "log").jobs
    assert again.status == "unchanged"
    write_gguf(tmp_path / "tiny.gguf", Kind.Q4_0)
    [changed] = batch_preview(jobs, tmp_path / "log").jobs
    assert changed.status == "planned"


def test_a_quantized_gguf_file_and_a_damaged_one_end_their_own_jobs(tmp_path):
    write_gguf(tmp_path / "tiny.gguf", Kind.Q8_0)
    (tmp_path / "damaged.gguf").write_bytes(b"GGUF")
    quantized, damaged = export_many(jobs_of(tmp_path, {"model": "tiny.gguf"}, {"model": "damaged.gguf"})).jobs
    assert (quantized.status, damaged.status) == ("failed", "failed")
    assert "is quantized: GGUF with Q8_0" in quantized.error
    assert "damaged.gguf could not be read" in damaged.error


def test_a_model_of_another_library_is_exported_and_its_subfolders_count(tmp_path):
    others.sentence_transformer(tmp_path / "encoder").save(str(tmp_path / "sentences"))
    jobs = jobs_of(tmp_path, {"model": "sentences", "library": "sentence_transformers"})
    [result] = export_many(jobs, log=tmp_path / "log").jobs
    assert result.status == "exported", result.error
    assert "sentence_embedding" in load(tmp_path / "out" / "sentences").outputs
    assert [job.status for job in batch_preview(jobs, tmp_path / "log").jobs] == ["unchanged"]
    files = (tmp_path / "sentences").rglob("*.safetensors")
    sizes = [entry.length for file in files for entry in file_entries(file)]
    assert stored_weights(tmp_path / "sentences", "sentence_transformers").bytes == sum(sizes)
    [weights] = (tmp_path / "sentences").glob("*_Dense/*.safetensors")
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    assert [job.status for job in batch_preview(jobs, tmp_path / "log").jobs] == ["planned"]


def test_a_pipeline_of_diffusers_is_one_job_and_each_of_its_parts_counts(tmp_path, monkeypatch):
    parts = {name: others.MODELS["diffusers.clip-text"]["default"]() for name in ("text_encoder", "text_encoder_2")}
    pipeline = SimpleNamespace(components=parts, config={}, to_json_string=lambda: "{}")
    monkeypatch.setattr(diffusers, "load_library_model", lambda *_, **__: pipeline)
    [job] = jobs_of(tmp_path, {"model": "pipeline", "library": "diffusers", "dtype": "float16"})
    result = evolve(job_result(job), digest="a")
    assert result.status == "exported", result.error
    files = [tmp_path / "out" / "pipeline" / name / "model_fp16.onnx" for name in parts]
    assert result.file_bytes > sum(file.stat().st_size for file in files)
    assert is_unchanged(result, "a")
    assert not is_unchanged(result, "b")
    shutil.rmtree(files[1].parent)
    assert not is_unchanged(result, "a")
    assert "--decoders is not for a whole pipeline" in job_result(evolve(job, decoders="both")).error
    assert "each part has a spec" in job_result(evolve(job, spec=ExportSpec())).error


@pytest.mark.sweep
def test_checkpoints_of_three_libraries_are_exported_together(tmp_path):
    """One of timm is in the batch where timm is installed."""
    library, rows = others.library("diffusers"), {"text_encoder": "clip-text", "unet": "unet-2d-condition"}
    parts = {
        name: others.MODELS[f"diffusers.{row}"]["default"]() for name, row in {**rows, "vae": "vae-encoder"}.items()
    }
    parts["tokenizer"] = transformers.CLIPTokenizer({"<|startoftext|>": 0, "<|endoftext|>": 1}, [])
    parts["scheduler"] = library.DDIMScheduler(steps_offset=1, clip_sample=False)
    unused = dict.fromkeys(("safety_checker", "feature_extractor"))
    library.StableDiffusionPipeline(**parts, **unused).save_pretrained(tmp_path / "pipeline")
    save_berts(tmp_path, 1)
    lines = [{"model": "pipeline", "library": "diffusers"}, {"model": "bert-000"}]
    if find_spec("timm"):
        timm = others.library("timm")
        timm.models.save_for_hf(timm.create_model("test_vit", num_classes=5), tmp_path / "vit", safe_serialization=True)
        lines.append({"model": "vit", "library": "timm"})
    jobs = jobs_of(tmp_path, *lines)
    assert {job.status for job in export_many(jobs, log=tmp_path / "log").jobs} == {"exported"}
    assert len([*(tmp_path / "out" / "pipeline").glob("*/model.onnx")]) == len(("text", "unet", "encoder", "decoder"))
    assert {job.status for job in batch_preview(jobs, tmp_path / "log").jobs} == {"unchanged"}


def header(content):
    text = json.dumps(content).encode()
    return struct.pack("<Q", len(text)) + text


@pytest.mark.parametrize(
    "content",
    [
        header({"a": "F32"}),
        header({"a": {"dtype": "F32"}}),
        header({"a": {"dtype": ["F32"], "shape": [], "data_offsets": [0, 4]}}),
        header({"a": {"dtype": "F32", "shape": ["x"], "data_offsets": [0, 4]}}),
        header({"a": {"dtype": "F32", "shape": [1], "data_offsets": 4}}),
        struct.pack("<Q", 200_000) + b"[" * 200_000,
    ],
)
def test_a_damaged_header_ends_its_own_job(content, tmp_path):
    _, damaged = save_berts(tmp_path / "models", 2)
    (damaged / "model.safetensors").write_bytes(content)
    result = batch_preview(read_jobs(tmp_path / "models", tmp_path / "out"))
    assert [job.status for job in result.jobs] == ["planned", "failed"]
    assert "safetensors" in result.jobs[1].error
    assert "unexpected" not in result.jobs[1].error


def test_a_checkpoint_that_leads_out_of_its_folder_ends_its_own_job(tmp_path):
    first, second = save_berts(tmp_path / "models", 2)
    (second / "model.safetensors").unlink()
    (second / "model.safetensors").symlink_to(first / "model.safetensors")
    result = batch_preview(read_jobs(tmp_path / "models", tmp_path / "out"))
    assert [job.status for job in result.jobs] == ["planned", "failed"]
    assert "'model.safetensors' is a link out of its folder" in result.jobs[1].error

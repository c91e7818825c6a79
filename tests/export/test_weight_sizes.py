import os
from pathlib import Path

import every_part
import pytest
import shrunk
import tiny
import torch
import transformers
from command_line import error_of, exported_checkpoint, succeed

import onnxfn
from onnxfn.export.find import lookup
from onnxfn.export.run import requests
from onnxfn.weights.onnx_files import stored_tensors

MODELS = {
    "bert": "fill-mask",
    "llama": "text-generation-with-past",
    "t5": "text2text-generation-with-past",
    "whisper": "automatic-speech-recognition-with-past",
    "resnet": "image-classification",
    "gpt2": "text-generation-with-past",
}
SIZES = {"vocab_size": 600, "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
CONFIGS = {
    "bert": transformers.BertConfig(**SIZES, intermediate_size=256, max_position_embeddings=64),
    "llama": transformers.LlamaConfig(**SIZES, intermediate_size=256, num_key_value_heads=2, tie_word_embeddings=True),
    "gpt2": transformers.GPT2Config(vocab_size=600, n_embd=128, n_layer=2, n_head=4, n_positions=64),
}
FLOATS = ("float32", "float16")
CONSTANTS = 1600
"""Bytes that the constants of these tiny graphs have at most: tables that the model computes, numbers of operators."""


@pytest.mark.parametrize("model_type", MODELS)
def test_the_bytes_are_those_of_the_weights_in_the_files(model_type, tmp_path):
    spec, model = tiny.spec_and_model(model_type, MODELS[model_type])
    write = onnxfn.WriteOptions(weight_storage="copy", external_data_threshold=0)
    exported = onnxfn.export(spec, model, tmp_path / "out", dtypes=FLOATS, write=write, check=False)
    written = {f"{size.part}.onnx": size.bytes for size in exported.plan.weight_bytes}
    for name, size in onnxfn.weight_bytes(spec, model, FLOATS).items():
        stored = sum(tensor.length for tensor in stored_tensors(tmp_path / "out" / name))
        assert size <= written[name] <= stored <= size + CONSTANTS
        state = {key for key, _ in model.named_parameters(remove_duplicate=False)}
        assert sum(t.length for t in stored_tensors(tmp_path / "out" / name) if t.name in state) <= size


@pytest.mark.parametrize("model_type", CONFIGS)
def test_the_bytes_of_quantized_weights_are_within_2_percent(model_type, tmp_path):
    """The constants of the graph are not weights: those of the float32 file are taken off."""
    spec = onnxfn.spec_for(model_type, MODELS[model_type])
    model = getattr(transformers, spec.call.loader).from_config(CONFIGS[model_type])
    dtypes = ("float32", "q8", "uint8", "q4", "q4f16", "bnb4")
    write = onnxfn.WriteOptions(weight_storage="copy", external_data_threshold=0)
    exported = onnxfn.export(spec, model, tmp_path / "out", dtypes=dtypes, write=write, check=False)
    planned = onnxfn.weight_bytes(spec, model, dtypes)
    stored = {name: sum(each.length for each in stored_tensors(tmp_path / "out" / name)) for name in planned}
    written = {f"{size.part}.onnx": size.bytes for size in exported.plan.weight_bytes}
    constants = stored["model.onnx"] - planned["model.onnx"]
    for name, size in planned.items():
        assert abs(stored[name] - constants - size) <= 0.02 * size, name
        assert stored[name] - CONSTANTS <= written[name] <= stored[name]


@pytest.mark.parametrize("model_type", ["bert", "t5"])
def test_a_checkpoint_whose_weights_are_missing_has_sizes(model_type, tmp_path):
    spec, model = tiny.spec_and_model(model_type, MODELS[model_type])
    model.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    assert onnxfn.weight_bytes(spec, tmp_path, FLOATS) == onnxfn.weight_bytes(spec, model, FLOATS)


def test_a_dry_run_prints_the_plan_and_reads_no_weight(tmp_path):
    spec, model = tiny.spec_and_model("llama", MODELS["llama"])
    model.save_pretrained(tmp_path / "checkpoint")
    weights = tmp_path / "checkpoint" / "model.safetensors"
    content = weights.read_bytes()
    header = int.from_bytes(content[:8], "little") + 8
    weights.write_bytes(content[:header])
    os.truncate(weights, len(content))  # a header, and a hole in the place of the weights
    dtypes = ("--dtype", "float32", "--dtype", "float16")
    result = succeed("export", tmp_path / "checkpoint", tmp_path / "out", *dtypes, "--dry-run")
    sizes = onnxfn.weight_bytes(spec, model, FLOATS)
    assert "bytes of weights alone, at most; a file has nodes and constants, too, and lacks weights" in result.stdout
    for name, size in sizes.items():
        assert any(line.split()[0] == name and f"{size} bytes" in line for line in result.stdout.splitlines()[1:])
    assert not (tmp_path / "out").exists()


def test_a_dry_run_of_a_model_type_without_a_row_reads_no_weight(tmp_path, monkeypatch):
    spec, model = tiny.spec_and_model("llama", MODELS["llama"])
    model.save_pretrained(tmp_path / "checkpoint")
    (tmp_path / "checkpoint" / "model.safetensors").unlink()
    for module in (requests, lookup):
        monkeypatch.setattr(module, "has_row", lambda *_: False)
    result = succeed("export", tmp_path / "checkpoint", tmp_path / "out", "--dry-run")
    (size,) = onnxfn.weight_bytes(spec, model).values()
    assert f"{size} bytes" in result.stdout


def test_a_dry_run_of_a_model_whose_experts_are_chosen_by_values_reads_no_weight(tmp_path):
    """No row; the table of patches has its experts, so that a spec is derived from a model without values."""
    result = exported_checkpoint(shrunk.model("zaya", "ZayaForCausalLM"), tmp_path, "--dry-run")
    assert "bytes of weights alone" in result.stdout


def test_a_dry_run_of_timm_reads_no_weight(tmp_path):
    timm = pytest.importorskip("timm", reason="timm is tried where it is installed")
    model = timm.create_model("test_vit", num_classes=5)
    timm.models.save_for_hf(model, tmp_path / "checkpoint")
    for weights in (*(tmp_path / "checkpoint").glob("*.safetensors"), *(tmp_path / "checkpoint").glob("*.bin")):
        weights.unlink()
    result = succeed("export", tmp_path / "checkpoint", tmp_path / "out", "--dry-run", "--library", "timm")
    parameters = 4 * sum(weight.numel() for weight in model.parameters())
    assert f"{parameters} bytes" in result.stdout
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("library", ["sentence_transformers", "diffusers"])
def test_a_dry_run_of_a_library_that_needs_the_weights_says_what_to_do(library, tmp_path):
    message = error_of("export", tmp_path, tmp_path / "out", "--dry-run", "--library", library)
    assert f"{library} makes no model without its weights; leave --dry-run out" in message


def test_a_part_that_calls_a_method_of_the_model_has_the_size_of_its_own_weights(tmp_path):
    task = "image-text-to-text-with-past"
    model = every_part.tiny_model("llava", task)
    exported = onnxfn.export(onnxfn.spec_for(model, task), model, tmp_path / "out", check=False)
    sizes = {size.part: size.bytes for size in exported.plan.weight_bytes}
    files = {Path(file).stem: Path(file).stat().st_size for file in exported.files if file.endswith(".onnx")}
    table = model.get_input_embeddings().weight
    assert sizes["embed_tokens"] == table.numel() * table.itemsize
    assert all(size < files[part] for part, size in sizes.items())


def shared():
    layer = torch.nn.Linear(4, 4)
    return torch.nn.Sequential(layer, torch.nn.ReLU(), torch.nn.Sequential(layer))


def renamed():
    """A model whose state dict has another name than its module."""

    def rename(_, state, prefix, __):
        state[f"{prefix}older.weight"] = state.pop(f"{prefix}0.weight")

    model = torch.nn.Sequential(torch.nn.Linear(4, 4))
    model.register_state_dict_post_hook(rename)
    return model


@pytest.mark.parametrize("build", [shared, renamed])
def test_a_layer_with_two_paths_or_another_name_in_the_state_dict_counts_once(build, tmp_path):
    model = build().eval()
    spec = onnxfn.derived(model, sample=torch.randn(3, 4), axes="batch_size _")
    assert onnxfn.weight_bytes(spec, model, ("float32",)) == {"model.onnx": 80}
    assert onnxfn.export(spec, model, tmp_path / "out.onnx").report.passed
    assert sum(tensor.length for tensor in stored_tensors(tmp_path / "out.onnx")) == 80

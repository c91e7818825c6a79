"""A graph takes LoRA adapters as inputs: one file, and as many adapters as there are, each equal to PEFT's merge."""

import json
from pathlib import Path

import numpy as np
import peft_adapters
import pytest
import torch
from command_line import exported_checkpoint
from onnxruntime import AdapterFormat, InferenceSession, LoraAdapter, RunOptions
from refusals import refusal
from safetensors.torch import save_file

import onnxfn
from onnxfn.check.check import adapter_report
from onnxfn.export.run import arguments as adapter_inputs
from onnxfn.models.casting import adapted_copy
from onnxfn.models.dtypes import in_dtype
from onnxfn.run.sessions import silent_options
from onnxfn.weights.adapter_files import adapter_arrays
from onnxfn.weights.adapters import CONFIG, WEIGHTS, read_adapter

LAYERS = ("q_proj", "v_proj", "down_proj")
TASK = "text-generation-with-past"


def write_random(folder, base, ends, rank, seed):
    """Writes an adapter for the linear layers with these names; peft is not needed."""
    torch.manual_seed(seed)
    tensors = {}
    for name, module in base.named_modules():
        if name.endswith(ends):
            tensors[f"base_model.model.{name}.lora_A.weight"] = 0.3 * torch.randn(rank, module.in_features)
            tensors[f"base_model.model.{name}.lora_B.weight"] = 0.3 * torch.randn(module.out_features, rank)
    folder.mkdir(parents=True)
    save_file(tensors, folder / WEIGHTS)
    (folder / CONFIG).write_text(json.dumps({"peft_type": "LORA", "r": rank, "lora_alpha": 3, "use_rslora": True}))
    return folder


@pytest.fixture(scope="module")
def base():
    return peft_adapters.base_model("patterns")


@pytest.fixture(scope="module")
def adapters(base, tmp_path_factory):
    folder = tmp_path_factory.mktemp("adapters")
    return [
        write_random(folder / "wide", base, LAYERS, 5, seed=1),
        write_random(folder / "narrow", base, ("q_proj",), 1, seed=2),
    ]


def spec_of(base):
    return onnxfn.with_adapter_inputs(onnxfn.spec_for(base, TASK), *LAYERS)


@pytest.fixture(scope="module")
def exported(base, adapters, tmp_path_factory):
    return onnxfn.export(spec_of(base), base, tmp_path_factory.mktemp("out") / "out", adapter=adapters[0])


def feeds(session, length):
    ids = np.arange(2 * length).reshape(2, length) % 20
    known = {"input_ids": ids, "attention_mask": np.ones_like(ids), "position_ids": np.tile(np.arange(length), (2, 1))}
    caches = {each.name: each.shape for each in session.get_inputs() if each.name not in known}
    sizes = {"batch_size": 2, "past_sequence_length": 0}
    shapes = {name: [sizes.get(size, size) for size in shape] for name, shape in caches.items()}
    return known | {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}


def logits_of_torch(model, length):
    ids = torch.arange(2 * length).reshape(2, length) % 20
    with torch.no_grad():
        return model(input_ids=ids, use_cache=False).logits.numpy()


def active(file):
    adapter, options = LoraAdapter(), RunOptions()
    adapter.Load(str(file))
    options.add_active_adapter(adapter)
    return adapter, options


def session_of(folder):
    return InferenceSession(str(folder / "model.onnx"), silent_options())


def test_one_graph_serves_two_adapters_and_none(base, adapters, exported, tmp_path):
    folder = Path(exported.path)
    session = session_of(folder)
    assert exported.report.passed
    assert any("with the adapter" in case for case in exported.report.cases)
    assert onnxfn.validate(spec_of(base), base, exported, adapter=adapters[0]).passed
    plain = session.run(["logits"], feeds(session, 7))[0]
    assert np.allclose(plain, logits_of_torch(base, 7), atol=1e-5)
    files = [folder / "wide.onnx_adapter", onnxfn.write_adapter(adapters[1], tmp_path / "narrow.onnx_adapter")]
    for adapter, file in zip(adapters, files, strict=True):
        merged = in_dtype(adapted_copy(base, adapter), "float32")
        loaded, options = active(file)
        actual = session.run(["logits"], feeds(session, 7), options)[0]
        assert np.allclose(actual, logits_of_torch(merged, 7), rtol=0, atol=1e-5)
        assert np.abs(actual - plain).max() > 1e-4
        del loaded
    assert np.array_equal(session.run(["logits"], feeds(session, 7))[0], plain)


def test_the_inputs_have_the_names_of_peft_and_an_open_rank(exported):
    session = session_of(Path(exported.path))
    optional = {each.name: each.shape for each in session.get_overridable_initializers()}
    assert optional["model.layers.1.self_attn.q_proj.lora_A.weight"] == [8, "model.layers.1.self_attn.q_proj.lora_r"]
    assert optional["model.layers.0.mlp.down_proj.lora_A.weight"] == [12, "model.layers.0.mlp.down_proj.lora_r"]
    assert optional["model.layers.0.self_attn.v_proj.lora_B.weight"] == ["model.layers.0.self_attn.v_proj.lora_r", 4]
    assert len(optional) == 2 * 2 * len(LAYERS)
    assert not any("lora" in each.name for each in session.get_inputs())
    assert {name for name, type_ in exported.graphs[0].inputs if type_.endswith(", optional")} == optional.keys()


@pytest.mark.parametrize("options", [{}, {"find_repeats": onnxfn.trace_all_layers}])
def test_fused_and_fully_traced_graphs_have_the_same_inputs(base, adapters, options, tmp_path):
    spec = onnxfn.with_opset(spec_of(base), 23)
    build = onnxfn.BuildOptions(**options)
    assert onnxfn.export(spec, base, tmp_path / "out", adapter=adapters[0], build=build).report.passed


def test_a_graph_from_the_template_cache_and_one_in_float16_have_the_inputs(base, adapters, tmp_path):
    build = onnxfn.BuildOptions(template_cache=tmp_path / "cache")
    spec = onnxfn.with_dtypes(spec_of(base), float="float16")
    for name in ("first", "second"):
        assert onnxfn.export(spec, base, tmp_path / name, adapter=adapters[0], build=build).report.passed


def test_each_file_of_an_encoder_and_its_decoder_gets_its_part_of_the_adapter(t5, tmp_path):
    adapter = write_random(tmp_path / "adapter", t5, (".q", ".wo"), 3, seed=4)
    spec = onnxfn.with_adapter_inputs(onnxfn.spec_for(t5, "text2text-generation-with-past"), "q", "wo")
    assert onnxfn.export(spec, t5, tmp_path / "out", adapter=adapter).report.passed
    for part in ("encoder_model", "decoder_model_merged"):
        session = InferenceSession(str(tmp_path / f"out/{part}.onnx"), silent_options())
        file = tmp_path / f"out/adapter_{part}.onnx_adapter"
        names = {each.name for each in session.get_overridable_initializers()}
        assert names
        assert AdapterFormat.read_adapter(str(file)).get_parameters().keys() == names
        again = onnxfn.write_adapter(adapter, tmp_path / "again.onnx_adapter", graph=tmp_path / f"out/{part}.onnx")
        assert again.read_bytes() == file.read_bytes()


def test_a_graph_of_4_bits_takes_an_adapter_and_is_measured_with_it(llama, tmp_path):
    adapter = write_random(tmp_path / "adapter", llama, ("q_proj", "down_proj"), 3, seed=5)
    spec = onnxfn.with_dtypes(onnxfn.spec_for(llama, TASK), float="q4")
    spec = onnxfn.with_adapter_inputs(spec, "q_proj", "down_proj")
    exported = onnxfn.export(spec, llama, tmp_path / "out", adapter=adapter, check=False)
    merged, arrays = adapted_copy(llama, adapter), adapter_arrays(read_adapter(adapter), "float32")
    file, (part,) = tmp_path / "out/model.onnx", exported.plan.parts
    wrong = {name: np.zeros_like(array) for name, array in arrays.items()}
    right, without = (adapter_report(merged, part, file, each).measurements for each in (arrays, wrong))
    assert [each.measure for each in right] == [each.measure for each in without] != []
    cosines = [{each.output: each.value for each in report if each.measure == "cases"} for report in (right, without)]
    assert cosines[0]["logits"] > cosines[1]["logits"] + 0.01


def test_a_wrong_adapter_file_fails_the_check(base, adapters, tmp_path, monkeypatch):
    right = adapter_inputs.adapter_arrays
    monkeypatch.setattr(
        adapter_inputs, "adapter_arrays", lambda *given: {name: 2 * array for name, array in right(*given).items()}
    )
    message = refusal(onnxfn.CheckFailed, onnxfn.export, spec_of(base), base, tmp_path / "out", adapter=adapters[0])
    assert "with the adapter" in message
    assert not (tmp_path / "out").exists()


def test_what_inputs_cannot_be_is_refused(base, adapters, tmp_path):
    spec = onnxfn.spec_for(base, TASK)
    wrong = onnxfn.with_adapter_inputs(spec, "q_porj")
    assert "did you mean 'q_proj'" in refusal(onnxfn.UnknownName, onnxfn.export, wrong, base, tmp_path / "a")
    table = onnxfn.with_adapter_inputs(spec, "embed_tokens")
    assert "name linear layers alone" in refusal(onnxfn.CaptureFailed, onnxfn.export, table, base, tmp_path / "b")
    narrow = onnxfn.with_adapter_inputs(spec, "q_proj")
    message = refusal(onnxfn.InvalidSpec, onnxfn.export, narrow, base, tmp_path / "c", adapter=adapters[0])
    assert "for which the graph has no inputs" in message
    for name, text in (("rslora", "lm_head.weight, which is not an input"), ("dora", "which is not an input")):
        folder = peft_adapters.FOLDER / name
        assert text in refusal(onnxfn.InvalidSpec, onnxfn.write_adapter, folder, tmp_path / "x.onnx_adapter")
    assert "names no layer" in refusal(onnxfn.InvalidSpec, onnxfn.with_adapter_inputs, spec)
    assert "float32 or float16" in refusal(
        onnxfn.InvalidSpec, onnxfn.write_adapter, adapters[0], tmp_path / "x.onnx_adapter", float="bfloat16"
    )


def test_the_command_line_writes_the_adapter_as_a_file(base, adapters, tmp_path):
    exported_checkpoint(base, tmp_path, "--task", TASK, "--adapter", adapters[1], "--adapter-input", "q_proj")
    assert (tmp_path / "out/onnx/narrow.onnx_adapter").is_file()
    assert onnxfn.verify(tmp_path / "out").passed

import threading
from pathlib import Path

import numpy as np
import onnx
import peft_adapters
import pytest
import tiny
import torch
from command_line import error_of, exported_checkpoint
from onnx import numpy_helper
from refusals import refusal
from safetensors.torch import load_file

import onnxfn
from onnxfn.models.casting import adapted_copy
from onnxfn.models.dtypes import in_dtype

CLOSE = {"rtol": 1e-6, "atol": 1e-7}
"""A product of rank 4 in float32, summed in another order."""

TASKS = {"patterns": "text-generation-with-past", "dora": "text-classification", "conv1d": "text-generation"}


def adapted(name, model=None, folder=None):
    model = model or peft_adapters.base_model(name)
    return adapted_copy(model, folder or peft_adapters.FOLDER / name)


def parameters(model):
    return dict(model.named_parameters(remove_duplicate=False))


def assert_merged(model, expected):
    for name, parameter in parameters(model).items():
        assert torch.allclose(parameter, expected[name], **CLOSE), name


@pytest.mark.parametrize("name", peft_adapters.CASES)
def test_merged_weights_are_those_that_peft_stored(name):
    base = peft_adapters.base_model(name)
    before = {key: (id(tensor), tensor.detach().clone()) for key, tensor in parameters(base).items()}
    stored = load_file(peft_adapters.FOLDER / name / peft_adapters.EXPECTED)
    assert len(stored) > 1 or name == "conv2d"
    assert_merged(adapted(name, base), parameters(base) | stored)
    assert all(id(own) == before[key][0] and own.equal(before[key][1]) for key, own in parameters(base).items())


@pytest.mark.parametrize("name", peft_adapters.CASES)
def test_merged_weights_are_those_of_peft(name, tmp_path):
    pytest.importorskip("peft", reason="compares with PEFT where it is installed")
    expected = peft_adapters.write_adapter(name, tmp_path, seed=7)
    assert_merged(adapted(name, folder=tmp_path), expected)


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_an_export_holds_the_merged_weights_and_passes_its_check(name, dtype, tmp_path):
    base, folder = peft_adapters.base_model(name), peft_adapters.FOLDER / name
    spec = onnxfn.with_dtypes(onnxfn.spec_for(base, TASKS[name]), float=dtype)
    exported = onnxfn.export(spec, base, tmp_path / "out", adapter=folder)
    assert exported.report.passed
    assert onnxfn.validate(spec, base, exported, adapter=folder).passed
    if dtype == "float32":
        assert not onnxfn.validate(spec, base, exported).passed
    stored = [numpy_helper.to_array(tensor) for tensor in onnx.load(tmp_path / "out/model.onnx").graph.initializer]
    for merged in load_file(folder / peft_adapters.EXPECTED).values():
        expected = merged.to(getattr(torch, dtype)).numpy()
        close = {"rtol": 2e-3, "atol": 2e-3} if dtype == "float16" else CLOSE
        like = [array for array in stored if array.shape in (expected.shape, expected.T.shape)]
        turned = [array if array.shape == expected.shape else array.T for array in like]
        assert any(
            np.allclose(array, expected, **close)
            for array in (*turned, *(array.T for array in like if array.ndim == 2 and array.shape[0] == array.shape[1]))
        )


@pytest.mark.parametrize("dtype", ["q4", "uint8"])
def test_quantized_weights_are_those_of_the_merged_model(dtype, tmp_path):
    base, folder = peft_adapters.base_model("patterns"), peft_adapters.FOLDER / "patterns"
    spec = onnxfn.with_dtypes(onnxfn.spec_for(base, TASKS["patterns"]), float=dtype)
    exported = onnxfn.export(spec, base, tmp_path / "out", adapter=folder)
    assert onnxfn.validate(spec, base, exported, adapter=folder).passed
    of_base = onnxfn.validate(spec, base, exported)
    merged = load_file(folder / peft_adapters.EXPECTED)
    wrong = {finding.split(" elements of ")[1].split(" ")[0] for finding in of_base.findings if "a step" in finding}
    assert wrong == {name for name, tensor in merged.items() if tensor.ndim > 1}


def test_a_merged_weight_is_rounded_once_and_lies_in_a_file_without_a_name():
    base = peft_adapters.base_model("patterns").bfloat16()
    stored = load_file(peft_adapters.FOLDER / "patterns" / peft_adapters.EXPECTED)
    merged = parameters(adapted("patterns", base))
    for name, expected in stored.items():
        assert merged[name].dtype == torch.bfloat16
        assert torch.allclose(merged[name].float(), expected, rtol=1e-2, atol=1e-2)
    maps = Path("/proc/self/maps").read_text().splitlines()
    assert sum("/onnxfn-" in line and line.endswith("/weight (deleted)") for line in maps) >= len(stored)


def test_the_command_line_merges_an_adapter_into_a_bfloat16_checkpoint(tmp_path):
    base = peft_adapters.base_model("patterns").bfloat16()
    exported_checkpoint(base, tmp_path, "--task", "text-generation", "--adapter", peft_adapters.FOLDER / "patterns")
    exported = onnxfn.load(tmp_path / "out")
    merged = in_dtype(adapted("patterns", base), "float32")
    ids = np.arange(10).reshape(2, 5)
    with torch.no_grad():
        expected = merged.to(torch.float32)(torch.from_numpy(ids), use_cache=False).logits.numpy()
    actual = exported(input_ids=ids, attention_mask=np.ones_like(ids), position_ids=np.tile(np.arange(5), (2, 1)))
    assert np.allclose(actual["logits"], expected, atol=1e-5)


def test_the_command_line_says_that_a_folder_is_an_adapter(tmp_path):
    folder = peft_adapters.FOLDER / "patterns"
    assert f"export its model, with --adapter {folder}" in error_of("export", folder, tmp_path / "out")


def test_a_prefix_of_the_head_is_added_or_left_out():
    base = peft_adapters.base_model("patterns")
    model = adapted("patterns", base.model)
    merged = parameters(base) | load_file(peft_adapters.FOLDER / "patterns" / peft_adapters.EXPECTED)
    assert_merged(model, {key.removeprefix("model."): tensor for key, tensor in merged.items()})


def replaced(name, layer, *sizes, **options):
    model = peft_adapters.base_model(name)
    model.set_submodule(layer, torch.nn.Linear(*sizes, **options))
    return model


def tied_head():
    model = peft_adapters.base_model("embedding")
    model.lm_head.weight = model.model.embed_tokens.weight
    return model


@pytest.mark.parametrize(
    ("name", "model", "part"),
    [
        ("patterns", lambda: peft_adapters.base_model("dora"), "down_proj; the model has none of this name"),
        (
            "patterns",
            lambda: replaced("patterns", "model.layers.0.mlp.down_proj", 10, 8),
            "by a matrix of the shape [8, 12]; known are: Linear",
        ),
        ("embedding", tied_head, "which is tied to lm_head.weight"),
        (
            "rslora",
            lambda: replaced("rslora", "lm_head", 8, 21, bias=False),
            "has lm_head.weight [20, 8]; the model has one of the shape [21, 8]",
        ),
    ],
    ids=["another model", "another layer", "tied", "wider"],
)
def test_an_adapter_that_does_not_fit_the_model_is_refused(name, model, part):
    assert part in refusal(onnxfn.InvalidSpec, adapted, name, model())


def test_a_model_that_cannot_be_copied_is_refused():
    base = peft_adapters.base_model("patterns")
    folder = peft_adapters.FOLDER / "patterns"
    base.lock = threading.Lock()
    assert "cannot be copied" in refusal(onnxfn.InvalidSpec, adapted_copy, base, folder)
    assert adapted_copy(base, None) is base


def test_a_model_that_peft_adapts_is_for_the_tasks_of_the_model_inside():
    peft = pytest.importorskip("peft", reason="peft is in the extra test")
    settings = peft.LoraConfig(r=4, target_modules=["q_proj"], init_lora_weights=False)
    model = peft.get_peft_model(tiny.model("llama", "AutoModelForCausalLM"), settings)
    assert onnxfn.export(onnxfn.spec_for(model, "text-generation-with-past"), model).report.passed

"""Models that are not in float32, on the CPU and in evaluation mode: each is exported right, or refused in one line."""

from contextlib import contextmanager, nullcontext

import pytest
import tiny
import torch

import onnxfn
from onnxfn.models.model_state import with_plain_tensors

TASK = "feature-extraction"


def bert():
    return tiny.model("bert", "BertModel", num_hidden_layers=1)


def changed(change):
    model = bert()
    change(model)
    return model


def with_each_linear(change):
    model = bert()
    for module in [module for module in model.modules() if isinstance(module, torch.nn.Linear)]:
        change(module)
    return model


def with_adapter():
    peft = pytest.importorskip("peft", reason="adapters need the package peft, which is in the extra test")
    model = tiny.model("llama", "LlamaModel", num_hidden_layers=1)
    settings = peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    return peft.get_peft_model(model, settings)


def with_hooks_of_accelerate():
    from accelerate.hooks import AlignDevicesHook, add_hook_to_module

    model = bert()
    for module in model.modules():
        add_hook_to_module(module, AlignDevicesHook(execution_device="cpu"))
    return model


def pruned(module):
    from torch.nn.utils import prune

    prune.l1_unstructured(module, "weight", amount=0.3)


EXPORTED = {
    "compiled": lambda: torch.compile(bert(), backend="eager"),
    "compiled in place": lambda: changed(lambda model: model.compile(backend="eager")),
    "data parallel": lambda: torch.nn.DataParallel(bert()),
    "training": lambda: bert().train(),
    "gradient checkpointing": lambda: changed(lambda model: model.train().gradient_checkpointing_enable()),
    "frozen": lambda: bert().requires_grad_(requires_grad=False),
    "partly frozen": lambda: changed(lambda model: model.embeddings.requires_grad_(requires_grad=False)),
    "made in inference mode": torch.inference_mode()(bert),
    "weight norm": lambda: with_each_linear(torch.nn.utils.parametrizations.weight_norm),
    "weight norm by a hook": lambda: with_each_linear(torch.nn.utils.weight_norm),
    "spectral norm": lambda: with_each_linear(torch.nn.utils.parametrizations.spectral_norm),
    "pruned": lambda: with_each_linear(pruned),
    "transposed weights": lambda: with_each_linear(
        lambda linear: setattr(linear.weight, "data", linear.weight.data.t().contiguous().t())
    ),
    "hook that changes an output": lambda: changed(
        lambda model: model.encoder.layer[0].register_forward_hook(lambda _module, _inputs, output: output * 1.5)
    ),
    "hooks of accelerate": with_hooks_of_accelerate,
    "adapter": with_adapter,
    "float16": lambda: bert().half(),
}
"""Models that are exported, each in a state of its own."""


@contextmanager
def set_to(value, before, change):
    """A setting of torch, which has another value before and afterwards."""
    change(value)
    try:
        yield
    finally:
        change(before)


SETTINGS = {
    "inference mode": torch.inference_mode,
    "no gradients": torch.no_grad,
    "anomaly detection": torch.autograd.detect_anomaly,
    "default dtype": lambda: set_to(torch.bfloat16, torch.float32, torch.set_default_dtype),
    "default float64": lambda: set_to(torch.float64, torch.float32, torch.set_default_dtype),
    "default device": lambda: set_to("meta", None, torch.set_default_device),
    "device": lambda: torch.device("meta"),
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "autocast to float16": lambda: torch.autocast("cpu", dtype=torch.float16),
    "deterministic": lambda: set_to(True, False, torch.use_deterministic_algorithms),
}
"""Settings of torch around an export."""


def offloaded():
    import accelerate

    return accelerate.cpu_offload(bert(), execution_device="cpu")


def sharded():
    """A model of FSDP has a class of its own; a process group is not needed to see it."""
    from torch.distributed.fsdp import FSDPModule

    model = bert()
    model.__class__ = type("FSDPBertModel", (FSDPModule, type(model)), {})
    return model


REFUSED = {
    "on meta": (
        lambda: bert().to("meta"),
        (
            "^BertModel has weights without values, on the meta device: .*; "
            "load its weights first, or pass checkpoint=, the fo"
        ),
    ),
    "partly on meta": (
        lambda: changed(lambda model: model.encoder.to("meta")),
        "on the meta device: encoder.layer.0.attention.self.query.weight; load its",
    ),
    "offloaded": (offloaded, "accelerate keeps them elsewhere: load the model without device_map"),
    "sharded": (sharded, "splits its weights over processes; export the model as it was before that"),
    "quantized by torch": (
        lambda: torch.ao.quantization.quantize_dynamic(bert(), {torch.nn.Linear}),
        "has layers that torch.ao quantized",
    ),
    "bfloat16": (lambda: bert().bfloat16(), r'export in float32, by with_dtypes\(spec, float="float32"\)'),
    "float64": (lambda: bert().double(), r'export in float32, by with_dtypes\(spec, float="float32"\)'),
    "TorchScript": (lambda: torch.jit.trace(torch.nn.Linear(2, 2), torch.ones(1, 2)), "the model is TorchScript"),
}
"""Models that are refused, each with the start of the advice."""


def exported_with(model, folder, settings=nullcontext, spec=None, **options):
    with settings():
        spec = spec or onnxfn.spec_for(model, TASK)
        return onnxfn.export(spec, model, folder / "out", **options)


@pytest.mark.parametrize("state", EXPORTED)
def test_a_model_in_this_state_agrees_with_pytorch(state, tmp_path):
    torch.manual_seed(0)
    model = EXPORTED[state]()
    modes = [module.training for module in model.modules()]
    result = exported_with(model, tmp_path)
    assert result.report.passed
    assert max(difference.max_abs for difference in result.report.differences) < (1e-2 if state == "float16" else 1e-5)
    assert [module.training for module in model.modules()] == modes


@pytest.fixture(scope="module")
def without_settings(tmp_path_factory):
    """The bytes of an export around which torch has its defaults."""
    exported_with(bert(), folder := tmp_path_factory.mktemp("plain"))
    return (folder / "out" / "model.onnx").read_bytes()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("setting", SETTINGS)
def test_settings_of_torch_change_nothing(setting, tmp_path, without_settings):
    model = bert()
    result = exported_with(model, tmp_path, SETTINGS[setting])
    assert result.report.passed
    assert (tmp_path / "out" / "model.onnx").read_bytes() == without_settings
    with SETTINGS[setting]():
        assert onnxfn.validate(onnxfn.spec_for(model, TASK), model, result).passed


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("setting", SETTINGS)
def test_settings_of_torch_change_nothing_of_an_own_module(setting, tmp_path):
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2), torch.nn.Tanh())
    sample = {"input": torch.ones(2, 3)}
    with SETTINGS[setting]():
        spec = onnxfn.derived(module, sample=sample)
    assert exported_with(module, tmp_path, SETTINGS[setting], spec).report.passed


@pytest.mark.parametrize("state", REFUSED)
def test_a_model_in_this_state_is_refused_in_a_line(state, tmp_path):
    build, advice = REFUSED[state]
    with pytest.raises(onnxfn.OnnxfnError, match=advice) as refusal:
        exported_with(build(), tmp_path)
    assert "\n" not in str(refusal.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_a_model_of_another_dtype_is_exported_in_float32(dtype, tmp_path):
    model = bert().to(dtype)
    spec = onnxfn.with_dtypes(onnxfn.spec_for(model, TASK), float="float32")
    assert exported_with(model, tmp_path, spec=spec).report.passed


@pytest.mark.parametrize("build", [lambda: bert().to("meta"), offloaded], ids=["on meta", "offloaded"])
def test_weights_come_from_the_checkpoint(build, tmp_path):
    """A model without values and its checkpoint give the file that the model with values gives."""
    original = bert()
    original.save_pretrained(tmp_path / "checkpoint")
    feeds = {"input_ids": [[5, 6, 7]], "attention_mask": [[1, 1, 1]], "token_type_ids": [[0, 0, 0]]}
    expected = exported_with(original, tmp_path)(**feeds)
    result = exported_with(build(), tmp_path, checkpoint=tmp_path / "checkpoint", overwrite=True)
    assert result.report.passed
    actual = result(**feeds)
    assert all((actual[name] == expected[name]).all() for name in expected)


def test_a_checkpoint_that_lacks_weights_is_refused(tmp_path):
    bert().save_pretrained(tmp_path / "checkpoint")
    model = tiny.model("bert", "BertModel", num_hidden_layers=2).to("meta")
    with pytest.raises(onnxfn.InvalidSpec, match=r"checkpoint lacks weights that BertModel needs: encoder.layer.1"):
        exported_with(model, tmp_path, checkpoint=tmp_path / "checkpoint")


@pytest.mark.parametrize("device", ["cuda:0", "mps:0"])
def test_a_model_on_another_device_is_copied_to_the_cpu(device):
    """Tensors of a simulated device have no values, so only the copy is looked at: its devices, and what is tied."""
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    with FakeTensorMode() as mode:
        model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
        for layer in model:
            for name, tensor in list(layer.named_parameters()):
                simulated = FakeTensor(mode, torch.empty(tensor.shape, device="meta"), torch.device(device))
                layer._parameters[name] = torch.nn.Parameter(simulated, requires_grad=False)
        model[1].weight = model[0].weight
        copied = with_plain_tensors(model)
    assert {str(tensor.device) for tensor in model.parameters()} == {device}
    assert {str(tensor.device) for tensor in copied.parameters()} == {"cpu"}
    assert copied[1].weight is copied[0].weight
    assert copied[1].bias is not copied[0].bias


def test_a_plain_model_is_not_copied():
    model = bert()
    assert with_plain_tensors(model) is model

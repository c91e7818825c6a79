"""A copy of a model has its tensors, its answers, and nothing else in common with it."""

import functools
import threading
import types
from itertools import chain
from pathlib import Path

import pytest
import tiny
import torch

from onnxfn.models.model_state import model_copy

Linear = torch.nn.Linear
FEATURES = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))


def changed(module, **attributes):
    vars(module).update(attributes)
    return module


def hooked(hook):
    module = torch.nn.Sequential(Linear(4, 4), Linear(4, 4))
    module[0].register_forward_hook(hook(module))
    return module


def offloaded():
    import accelerate

    return accelerate.cpu_offload(torch.nn.Sequential(Linear(4, 4), Linear(4, 4)), execution_device="cpu")


def tied():
    module = torch.nn.Sequential(Linear(4, 4), Linear(4, 4))
    module[1].weight = module[0].weight
    return module


def with_method():
    module = Linear(4, 4)
    module.forward = types.MethodType(lambda self, features: features @ self.weight, module)
    return module


def with_partial():
    module = Linear(4, 4)
    return changed(module, forward=functools.partial(lambda module, features: features @ module.weight, module))


COPIED = {
    "layers": lambda: torch.nn.Sequential(Linear(4, 4), torch.nn.LayerNorm(4), torch.nn.Dropout()),
    "lstm": lambda: torch.nn.LSTM(4, 5),
    "tied": tied,
    "parametrized": lambda: torch.nn.utils.parametrizations.weight_norm(Linear(4, 4)),
    "data parallel": lambda: torch.nn.DataParallel(Linear(4, 4)),
    "compiled": lambda: torch.compile(Linear(4, 4), backend="eager"),
    "forward of an instance": with_method,
    "partial of a module": with_partial,
    "hook": lambda: hooked(lambda _: lambda _module, _inputs, output: output + 1),
    "offloaded": offloaded,
    "tensors in lists": lambda: changed(
        Linear(4, 4), others=[torch.ones(3), torch.nn.Parameter(torch.ones(3)), torch.ones(3, requires_grad=True) * 2]
    ),
}
"""Modules that are copied."""

NOT_COPIED = {
    "lock": lambda: changed(Linear(4, 4), lock=threading.Lock()),
    "hook of a module": lambda: hooked(lambda module: lambda *_: module[1].bias),
    "default of a function": lambda: hooked(lambda module: lambda *_, other=module[1]: other.bias),
    "TorchScript": lambda: torch.jit.script(Linear(4, 4)),
}
"""Modules that are not."""


def tensors(module):
    return list(chain(module.parameters(), module.buffers()))


def answer(module):
    result = module.eval()(FEATURES)
    return result if isinstance(result, torch.Tensor) else result[0]


@pytest.mark.parametrize("name", COPIED)
def test_a_copy_has_the_tensors_and_answers_of_the_module_and_modules_of_its_own(name):
    module = COPIED[name]()
    duplicate = model_copy(module)
    assert not {*map(id, module.modules())} & {*map(id, duplicate.modules())}
    assert all(tensor is other for tensor, other in zip(tensors(module), tensors(duplicate), strict=True))
    for tensor, other in zip(getattr(module, "others", ()), getattr(duplicate, "others", ()), strict=True):
        assert tensor.data_ptr() == other.data_ptr()
    with torch.no_grad():
        assert torch.equal(answer(module), answer(duplicate))


@pytest.mark.parametrize("name", NOT_COPIED)
def test_a_module_that_cannot_be_copied_is_returned_itself(name):
    module = NOT_COPIED[name]()
    assert model_copy(module) is module


def test_modes_configurations_and_hooks_of_a_copy_are_its_own():
    model = tiny.model("llama", "AutoModelForCausalLM").train()
    duplicate = model_copy(model)
    duplicate.eval()
    duplicate.config._attn_implementation = "eager"
    duplicate.model.layers[0].register_forward_hook(lambda *_: None)
    del duplicate.model.layers[1]
    assert all(module.training for module in model.modules())
    assert model.config._attn_implementation == "sdpa"
    assert duplicate.model.config is duplicate.config
    assert not model.model.layers[0]._forward_hooks
    assert len(model.model.layers) == 2


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the memory of the process from /proc")
def test_a_copy_of_50_million_parameters_takes_no_memory():
    def resident_pages():
        return int(Path("/proc/self/statm").read_text().split()[1])

    module = torch.nn.Sequential(*(torch.nn.Linear(1000, 1000) for _ in range(50)))
    model_copy(torch.nn.Linear(1, 1))
    before = resident_pages()
    assert model_copy(module) is not module
    assert (resident_pages() - before) * 4096 < 0.02 * 4 * 50_000_000

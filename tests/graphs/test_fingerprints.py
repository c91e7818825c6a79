"""A fingerprint depends on everything that a graph depends on, and not on the values of parameters."""

from __future__ import annotations

import functools
import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import tiny
import torch
from torch import nn
from transformers import CONFIG_MAPPING

import onnxfn
from onnxfn.architectures import ARCHITECTURES
from onnxfn.graphs.fingerprints import _source, fingerprint, source_files
from onnxfn.specs.records import Patch


def llama(**values):
    return tiny.model("llama", "AutoModelForCausalLM", **values)


def test_a_fine_tuned_model_has_the_same_fingerprint():
    model, fine_tuned = llama(), llama()
    with torch.no_grad():
        for parameter in fine_tuned.parameters():
            parameter.add_(1.0)
    fine_tuned.config._name_or_path = "elsewhere"
    fine_tuned.config.id2label = {0: "good", 1: "bad"}
    fine_tuned.train()
    assert fingerprint(model) == fingerprint(fine_tuned)


@pytest.mark.parametrize(
    "values", [{"num_hidden_layers": 3}, {"hidden_size": 64}, {"rms_norm_eps": 0.1}, {"hidden_act": "gelu"}]
)
def test_another_configuration_has_another_fingerprint(values):
    assert fingerprint(llama()) != fingerprint(llama(**values))


def a_number(model):
    model.model.layers[1].self_attn.scaling = 3.0


def a_computed_buffer(model):
    model.model.rotary_emb.inv_freq.mul_(2)


def a_module(model):
    model.model.norm = nn.Identity()


def a_dtype(model):
    model.half()


def the_attention(model):
    model.config._attn_implementation = "eager"


def a_method_of_another_module(model):
    model.model.norm.stored = model.model.layers[0].self_attn.q_proj.extra_repr


def the_dtype_of_a_buffer(model):
    model.model.rotary_emb.inv_freq = model.model.rotary_emb.inv_freq.bfloat16()


CHANGES = (
    *(a_number, a_computed_buffer, the_dtype_of_a_buffer, a_module, a_dtype, the_attention),
    a_method_of_another_module,
)


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_model_has_another_fingerprint(change):
    model = llama()
    change(model)
    assert fingerprint(llama()) != fingerprint(model) is not None


def test_the_other_arguments_count():
    assert len({fingerprint(llama()), fingerprint(llama(), "a"), fingerprint(llama(), "b")}) == 3


def a_hook(model):
    model.model.norm.register_forward_hook(lambda *_: None)


def a_closure(model):
    factor = 2
    model.model.norm.forward = lambda x: factor * x


def a_partial_function(model):
    model.model.norm.forward = functools.partial(torch.mul, 2)


def a_module_in_a_list(model):
    model.model.norm.stored = [nn.Linear(2, 2)]


def a_module_behind_a_method(model):
    model.model.norm.stored = nn.Linear(2, 2).extra_repr


def a_module_that_a_function_closes_over(model):
    from transformers.utils.output_capturing import install_output_capuring_hook

    install_output_capuring_hook(model.model.norm, nn.Linear(2, 2), 0)


HIDDEN = (a_hook, a_closure, a_module_in_a_list, a_module_behind_a_method, a_module_that_a_function_closes_over)


@pytest.mark.parametrize("change", HIDDEN)
def test_functions_defined_at_run_time_and_unregistered_modules_have_none(change):
    model = llama()
    change(model)
    assert fingerprint(model) is None


def test_a_partial_function_has_a_fingerprint():
    model = llama()
    a_partial_function(model)
    assert fingerprint(model) not in (None, fingerprint(llama()))


def keys_of_several_types(model):
    model.config.sizes = {1: "one", "two": 2}


def a_value_that_contains_itself(model):
    model.config.sizes = []
    model.config.sizes.append(model.config.sizes)


@pytest.mark.parametrize("change", [keys_of_several_types, a_value_that_contains_itself])
def test_a_configuration_that_cannot_be_written_as_json_has_none(change):
    model = llama()
    change(model)
    model.config.to_dict = lambda: {"sizes": model.config.sizes}
    assert fingerprint(model) is None


@pytest.mark.parametrize("file", ["no_such_file.py", "", None])
def test_a_class_whose_source_cannot_be_read_has_none(file, tmp_path, monkeypatch):
    """The file is missing, is a folder, or is not known."""
    module = ModuleType("a_module_without_a_file")
    module.__file__ = str(tmp_path / file) if file is not None else None
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec("class Model(Module): ...", vars(module) | {"Module": nn.Module}, vars(module))
    module.Model.__module__ = module.__name__
    assert fingerprint(module.Model()) is None


def test_the_source_of_every_folder_of_onnxfn_counts():
    names = [file.relative_to(Path(onnxfn.__file__).parent) for file in source_files()]
    folders = {name.parts[0] for name in names if len(name.parts) > 1}
    assert folders == {"specs", "architectures", "weights", "graphs", "check", "export"}


def test_the_hooks_of_transformers_count_with_what_they_close_over():
    from transformers.utils.output_capturing import install_output_capuring_hook

    def hooked(index):
        model = llama()
        install_output_capuring_hook(model.model.norm, "hidden_states", index)
        return fingerprint(model)

    assert None not in {hooked(0), hooked(1)}
    assert hooked(0) == hooked(0) != hooked(1)


def test_a_class_defined_in_a_function_has_none_and_one_of_a_module_has():
    class Local(nn.Module):
        pass

    assert fingerprint(Local()) is None
    assert fingerprint(tiny.model("bert", "AutoModel")) is not None


# Code that changes while its name and its file stay


FACTOR = 2.0
SETTINGS = {"factor": 2.0}


def scaled(x):
    return x * FACTOR


def scaled_by_a_setting(x):
    return x * SETTINGS["factor"]


def scaled_by_another_module(x):
    return x * tiny.SIZES_OF_A_TEST


def scaled_through_another_function(x):
    return scaled(x)


class Scale(nn.Module):
    """A module that a test changes from outside."""

    power = 1

    def __init__(self, function=scaled):
        super().__init__()
        self.function = function

    def forward(self, x):
        return {"y": self.function(x) ** self.power}


def another_forward(self, x):
    return {"y": self.function(x) + 1}


def test_two_lambdas_of_a_file_have_different_fingerprints():
    assert len({fingerprint(Scale(function)) for function in LAMBDAS} - {None}) == len(LAMBDAS)


LAMBDAS = (
    lambda x: x * 2,
    lambda x: x * 3,
    lambda x: x + 2,
    lambda x, y=2: x * y,
    lambda x, y=3: x * y,
    lambda x: sum(x * z for z in (1, 2)),
    lambda x: sum(x * z for z in (1, 3)),
    functools.partial(scaled),
    functools.partial(torch.mul, 2),
    functools.partial(torch.mul, 3),
)

CHANGED_CODE = {
    "a class attribute": (Scale, "power", 2, scaled),
    "a method of a class": (Scale, "forward", another_forward, scaled),
    "a method of a class of torch": (nn.Linear, "forward", another_forward, scaled),
    "a variable of a module": (sys.modules[__name__], "FACTOR", 3.0, scaled),
    "a variable that another function reads": (sys.modules[__name__], "FACTOR", 3.0, scaled_through_another_function),
    "a function of a module": (sys.modules[__name__], "scaled", LAMBDAS[0], scaled_through_another_function),
    "a dict of a module": (sys.modules[__name__], "SETTINGS", {"factor": 3.0}, scaled_by_a_setting),
    "a variable of another module": (tiny, "SIZES_OF_A_TEST", 3.0, scaled_by_another_module),
}


@pytest.fixture
def scales(monkeypatch):
    monkeypatch.setattr(tiny, "SIZES_OF_A_TEST", 2.0, raising=False)

    def model(function):
        scale = Scale(function)
        scale.linear = nn.Linear(2, 2)
        return scale

    return model


@pytest.mark.parametrize(("target", "name", "value", "function"), CHANGED_CODE.values(), ids=CHANGED_CODE)
def test_changed_code_has_another_fingerprint(target, name, value, function, scales):
    before = fingerprint(scales(function))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target, name, value)
        changed = fingerprint(scales(function))
    assert before is not None
    assert changed not in (None, before)
    assert fingerprint(scales(function)) == before


CHANGED_LLAMA = {
    "a class attribute": ("LlamaAttention", "is_causal", False),
    "a method": ("LlamaMLP", "forward", another_forward),
    "a function that a method calls": ("", "apply_rotary_pos_emb", scaled),
    "a function that this function calls": ("", "rotate_half", scaled),
    "a function of another module": ("", "create_causal_mask", scaled),
}


@pytest.mark.parametrize(("class_", "name", "value"), CHANGED_LLAMA.values(), ids=CHANGED_LLAMA)
def test_changed_code_of_transformers_has_another_fingerprint(class_, name, value):
    from transformers.models.llama import modeling_llama

    target = getattr(modeling_llama, class_) if class_ else modeling_llama
    before = fingerprint(llama())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target, name, value, raising=False)
        changed = fingerprint(llama())
    assert changed not in (None, before)
    assert fingerprint(llama()) == before


class Unhashable:
    """An object that cannot be pickled."""

    def __reduce_ex__(self, protocol):
        raise TypeError(protocol)


def test_code_that_reads_a_value_without_a_text_has_none(scales):
    before = fingerprint(scales(scaled_by_a_setting))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "SETTINGS", Unhashable())
        assert fingerprint(scales(scaled_by_a_setting)) is None
    assert fingerprint(scales(scaled_by_a_setting)) == before


MODULE = """
from onnxfn import *

def patch(x):
    return x * {factor}
"""


def test_the_source_of_a_patch_counts(tmp_path, monkeypatch):
    """A spec holds the name of a patch only."""
    monkeypatch.syspath_prepend(tmp_path)
    fingerprints = set()
    for factor in (2, 2, 3):
        monkeypatch.delitem(sys.modules, "patches_of_a_user", raising=False)
        importlib.invalidate_caches()
        _source.cache_clear()
        (tmp_path / "patches_of_a_user.py").write_text(MODULE.format(factor=factor))
        patch = Patch("torch.relu", "patches_of_a_user:patch", why="a test")
        fingerprints.add(fingerprint(llama(), (patch,)))
    assert len(fingerprints) == 2
    assert None not in fingerprints
    assert fingerprint(llama(), (Patch("torch.relu", "no_such_module:patch", why="a test"),)) is None


FIRST_MODEL = """
import sys
sys.path[:0] = sys.argv[1:]
import torch
from onnxfn.graphs.fingerprints import fingerprint
before = fingerprint(torch.nn.Linear(3, 3))
import tiny
tiny.model("bert", "AutoModel")
print(before, fingerprint(torch.nn.Linear(3, 3)))
"""


def test_the_first_model_of_transformers_changes_no_other_fingerprint():
    words = [sys.executable, "-c", FIRST_MODEL, *sys.path]
    before, after = subprocess.run(words, capture_output=True, check=True, text=True).stdout.split()
    assert before == after != "None"


PROGRAM = """
import sys
sys.path[:0] = sys.argv[1:]
import tiny
from onnxfn.graphs.fingerprints import fingerprint
print(*[fingerprint(tiny.model(name, "AutoModel")) for name in ("llama", "bert", "t5")])
"""


def test_another_process_computes_the_same_fingerprints():
    def fingerprints(seed):
        words = [sys.executable, "-c", PROGRAM, *sys.path]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        return subprocess.run(words, capture_output=True, check=True, text=True, env=environment).stdout

    assert fingerprints("1") == fingerprints("2")
    assert "None" not in fingerprints("1")


@pytest.mark.sweep
@pytest.mark.parametrize("model_type", [name for name in ARCHITECTURES if name in CONFIG_MAPPING])
def test_every_tiny_model_has_a_fingerprint(model_type):
    """OneFormer has none: it stores a module that it does not register."""
    spec = onnxfn.spec_for(model_type, onnxfn.tasks_for(model_type)[0])
    assert (fingerprint(tiny.model(model_type, spec.call.loader)) is None) == (model_type == "oneformer")

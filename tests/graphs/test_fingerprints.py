"""A fingerprint depends on everything that a graph depends on, and not on the values of parameters."""

import functools
from operator import attrgetter
from pathlib import Path

import pytest
import tiny
import torch
from own_processes import printed
from torch import nn
from transformers import CONFIG_MAPPING
from transformers.models.llama import modeling_llama

import onnxfn
from onnxfn.graphs.templates.fingerprints import fingerprint, source_files
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


def attribute(path, value):
    """A change of a model: an attribute gets the value that a function of the model returns."""
    owner, _, name = path.rpartition(".")
    return lambda model: setattr(attrgetter(owner)(model), name, value(model))


CHANGES = {
    "a number": attribute("model.norm.variance_epsilon", lambda _: 3.0),
    "a computed buffer": lambda model: model.model.rotary_emb.inv_freq.mul_(2),
    "the dtype of a buffer": attribute(
        "model.rotary_emb.inv_freq", lambda model: model.model.rotary_emb.inv_freq.bfloat16()
    ),
    "a module": attribute("model.norm", lambda _: nn.Identity()),
    "a dtype": lambda model: model.half(),
    "the attention": attribute("config._attn_implementation", lambda _: "eager"),
    "a method of another module": attribute("model.norm.stored", lambda model: model.model.embed_tokens.extra_repr),
    "a partial function": attribute("model.norm.forward", lambda _: functools.partial(torch.mul, 2)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_model_has_another_fingerprint(change):
    model = llama()
    change(model)
    assert fingerprint(llama()) != fingerprint(model) is not None


def test_the_other_arguments_count():
    assert len({fingerprint(llama()), fingerprint(llama(), "a"), fingerprint(llama(), "b")}) == 3


def a_closure(model):
    factor = 2
    model.model.norm.forward = lambda x: factor * x


def a_module_that_a_function_closes_over(model):
    from transformers.utils.output_capturing import install_output_capuring_hook

    install_output_capuring_hook(model.model.norm, nn.Linear(2, 2), 0)


def a_configuration_with(sizes):
    def change(model):
        model.config.to_dict = lambda: {"sizes": sizes}

    return change


ENDLESS = []
ENDLESS.append(ENDLESS)
HIDDEN = {
    "a hook": lambda model: model.model.norm.register_forward_hook(lambda *_: None),
    "a closure": a_closure,
    "a module in a list": attribute("model.norm.stored", lambda _: [nn.Linear(2, 2)]),
    "a module behind a method": attribute("model.norm.stored", lambda _: nn.Linear(2, 2).extra_repr),
    "a module that a function closes over": a_module_that_a_function_closes_over,
    "keys of several types": a_configuration_with({1: "one", "two": 2}),
    "a value that contains itself": a_configuration_with(ENDLESS),
}


@pytest.mark.parametrize("change", HIDDEN.values(), ids=HIDDEN)
def test_what_cannot_be_read_from_files_has_none(change):
    model = llama()
    change(model)
    assert fingerprint(model) is None


def test_the_source_of_every_folder_of_onnxfn_counts():
    names = [file.relative_to(Path(onnxfn.__file__).parent) for file in source_files()]
    folders = {name.parts[0] for name in names if len(name.parts) > 1}
    assert folders == {"specs", "architectures", "weights", "models", "graphs", "run", "check", "export"}


def test_the_hooks_of_transformers_count_with_what_they_close_over():
    from transformers.utils.output_capturing import install_output_capuring_hook

    def hooked(index):
        model = llama()
        install_output_capuring_hook(model.model.norm, "hidden_states", index)
        return fingerprint(model)

    assert None not in {hooked(0), hooked(1)}
    assert hooked(0) == hooked(0) != hooked(1)


class Own(nn.Module):
    """A model of a file of the user."""


def test_a_model_of_a_file_of_the_user_has_none():
    assert fingerprint(Own()) is None
    assert fingerprint(nn.Sequential(nn.ReLU(), Own())) is None
    assert fingerprint(nn.Sequential(nn.ReLU())) is not None


# Code of packages that a program changes


def another_forward(self, x):
    return x + 1


def not_rotated(x):
    return x


REPLACED = {
    "a method": ("LlamaMLP", "forward", another_forward),
    "a method of torch": ("nn.Linear", "forward", another_forward),
    "a function that a method calls": ("", "apply_rotary_pos_emb", not_rotated),
    "a function that this function calls": ("", "rotate_half", not_rotated),
    "a function of another module": ("", "create_causal_mask", not_rotated),
}


@pytest.mark.parametrize(("class_", "name", "value"), REPLACED.values(), ids=REPLACED)
def test_a_model_whose_code_a_program_replaced_has_none(class_, name, value, monkeypatch):
    target = attrgetter(class_)(modeling_llama) if class_ else modeling_llama
    model = llama()
    monkeypatch.setattr(target, name, value)
    assert fingerprint(model) is None


@pytest.mark.parametrize(
    ("class_", "name", "value"), [("LlamaAttention", "is_causal", False), ("LlamaMLP", "forward", nn.Linear.forward)]
)
def test_another_attribute_of_a_class_is_another_fingerprint(class_, name, value, monkeypatch):
    before = fingerprint(llama())
    monkeypatch.setattr(getattr(modeling_llama, class_), name, value, raising=False)
    assert fingerprint(llama()) not in (None, before)


def test_a_patch_of_an_installed_package_has_a_fingerprint_and_one_of_the_user_none():
    def with_patch(by):
        return fingerprint(nn.Linear(2, 2), (Patch("torch.relu", by, why="a test"),))

    assert with_patch("torch.nn.functional:gelu") not in (None, with_patch("torch.nn.functional:silu"))
    assert with_patch("patches_of_a_user:patch") is None


def test_the_first_model_of_transformers_changes_no_other_fingerprint():
    code = """
import torch
from onnxfn.graphs.templates.fingerprints import fingerprint
before = fingerprint(torch.nn.Linear(3, 3))
import tiny
tiny.model("bert", "AutoModel")
print(before, fingerprint(torch.nn.Linear(3, 3)))
"""
    before, after = printed("-c", code).split()
    assert before == after != "None"


def test_another_process_computes_the_same_fingerprints():
    code = """
import tiny
from onnxfn.graphs.templates.fingerprints import fingerprint
print(*[fingerprint(tiny.model(name, "AutoModel")) for name in ("llama", "bert", "t5")])
"""
    first, second = (printed("-c", code, PYTHONHASHSEED=seed).split() for seed in ("1", "2"))
    assert first == second
    assert "None" not in first


@pytest.mark.sweep
@pytest.mark.parametrize("model_type", [name for name in onnxfn.ARCHITECTURES if name in CONFIG_MAPPING])
def test_every_tiny_model_has_a_fingerprint(model_type):
    """OneFormer has none: it stores a module that it does not register."""
    spec = onnxfn.spec_for(model_type, onnxfn.tasks_for(model_type)[0])
    assert (fingerprint(tiny.model(model_type, spec.call.loader)) is None) == (model_type == "oneformer")

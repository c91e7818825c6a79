"""A fingerprint tells all that a graph depends on, and nothing of the values of parameters."""

from __future__ import annotations

import functools

import pytest
import tiny
import torch
from torch import nn
from transformers import CONFIG_MAPPING

import onnxfn
from onnxfn.architectures import ARCHITECTURES
from onnxfn.graphs.fingerprints import fingerprint


def llama(**said):
    return tiny.model("llama", "AutoModelForCausalLM", **said)


def test_another_fine_tune_has_the_same_fingerprint():
    one, other = llama(), llama()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(1.0)
    other.config._name_or_path = "elsewhere"
    other.config.id2label = {0: "good", 1: "bad"}
    other.train()
    assert fingerprint(one) == fingerprint(other)


@pytest.mark.parametrize(
    "said", [{"num_hidden_layers": 3}, {"hidden_size": 64}, {"rms_norm_eps": 0.1}, {"hidden_act": "gelu"}]
)
def test_another_configuration_has_another(said):
    assert fingerprint(llama()) != fingerprint(llama(**said))


def number(model):
    model.model.layers[1].self_attn.scaling = 3.0


def table(model):
    model.model.rotary_emb.inv_freq.mul_(2)


def module(model):
    model.model.norm = nn.Identity()


def dtype(model):
    model.half()


def attention(model):
    model.config._attn_implementation = "eager"


def borrowed(model):
    model.model.norm.told = model.model.layers[0].self_attn.q_proj.extra_repr


def short_table(model):
    model.model.rotary_emb.inv_freq = model.model.rotary_emb.inv_freq.bfloat16()


@pytest.mark.parametrize("change", [number, table, short_table, module, dtype, attention, borrowed])
def test_a_model_that_was_changed_has_another(change):
    model = llama()
    change(model)
    assert fingerprint(llama()) != fingerprint(model) is not None


def test_what_stands_beside_counts():
    assert len({fingerprint(llama()), fingerprint(llama(), "a"), fingerprint(llama(), "b")}) == 3


def hook(model):
    model.model.norm.register_forward_hook(lambda *_: None)


def closure(model):
    factor = 2
    model.model.norm.forward = lambda x: factor * x


def partial(model):
    model.model.norm.forward = functools.partial(torch.mul, 2)


def hidden(model):
    model.model.norm.aside = [nn.Linear(2, 2)]


def hidden_behind_a_method(model):
    model.model.norm.aside = nn.Linear(2, 2).extra_repr


def hidden_in_a_function(model):
    from transformers.utils.output_capturing import install_output_capuring_hook

    install_output_capuring_hook(model.model.norm, nn.Linear(2, 2), 0)


@pytest.mark.parametrize("change", [hook, closure, hidden, hidden_behind_a_method, hidden_in_a_function])
def test_nobody_can_tell_of_functions_made_at_run_time_and_modules_that_are_hidden(change):
    model = llama()
    change(model)
    assert fingerprint(model) is None


def test_hooks_that_transformers_makes_are_told_by_what_they_close_over():
    from transformers.utils.output_capturing import install_output_capuring_hook

    def listening(index):
        model = llama()
        install_output_capuring_hook(model.model.norm, "hidden_states", index)
        return fingerprint(model)

    assert None not in {listening(0), listening(1)}
    assert listening(0) == listening(0) != listening(1)


def test_a_class_of_ones_own_is_told_by_its_source():
    class Local(nn.Module):
        pass

    assert fingerprint(Local()) is None
    assert fingerprint(tiny.model("bert", "AutoModel")) is not None


@pytest.mark.sweep
@pytest.mark.parametrize("model_type", [name for name in ARCHITECTURES if name in CONFIG_MAPPING])
def test_every_tiny_model_has_one(model_type):
    """But OneFormer, which holds a module that it does not register."""
    spec = onnxfn.spec_for(model_type, onnxfn.tasks_for(model_type)[0])
    assert (fingerprint(tiny.model(model_type, spec.call.loader)) is None) == (model_type == "oneformer")

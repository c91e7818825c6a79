"""Model types whose models are built of the classes of another type have the row of that type."""

from types import SimpleNamespace

import every_head
import pytest
import shrunk
from agreement import assert_agreement
from command_line import exported_checkpoint
from transformers import LlamaConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

import onnxfn
from onnxfn.architectures import ARCHITECTURES
from onnxfn.export.derive.auto_tables import class_type, row_of
from onnxfn.export.find.lookup import checkpoint_task, has_row, spec_for, tasks_for
from onnxfn.specs.tasks.tasks import for_task

GPT2 = {"gpt2": ARCHITECTURES["gpt2"]}
"""A table without a row for `gpt-sw3`, whose classes are those of `gpt2`."""

BORROWERS = {"exaone": "llama", "sarvam_mla": "deepseek_v3", "sarvam_moe": "glm4_moe"}
"""Model types of transformers 5.24, and the types whose classes they have."""

TASK = "text-generation-with-past"


@pytest.mark.parametrize(
    ("name", "model_type"),
    [
        ("BertForMaskedLM", "bert"),
        ("GPT2LMHeadModel", "gpt2"),
        ("LlamaForCausalLM", "llama"),
        ("Llama4TextModel", "llama4_text"),
        ("MyModel", None),
    ],
)
def test_a_class_belongs_to_the_type_that_it_is_named_after(name, model_type):
    assert class_type(name) == model_type


def test_a_type_with_a_row_has_that_row():
    assert all(row_of(name, ARCHITECTURES) is row for name, row in ARCHITECTURES.items())


def test_a_type_with_the_classes_of_another_has_the_row_of_that_under_its_own_name():
    spec = spec_for("gpt-sw3", architectures=GPT2)
    assert (spec.name, spec.derived) == ("gpt-sw3", "the row of gpt2, whose classes gpt-sw3 has")
    assert (spec.inputs, spec.cache, spec.normalizer) == tuple(
        getattr(GPT2["gpt2"], name) for name in ("inputs", "cache", "normalizer")
    )
    assert for_task(spec, TASK).outputs == for_task(GPT2["gpt2"], TASK).outputs


def test_a_configuration_has_the_row_that_its_type_has():
    config = {"model_type": "gpt-sw3", "architectures": ["GPT2LMHeadModel"]}
    assert has_row(config, GPT2)
    assert spec_for(config, TASK, architectures=GPT2) == spec_for("gpt-sw3", TASK, architectures=GPT2)
    assert checkpoint_task(config, architectures=GPT2) == TASK
    assert tasks_for(config, architectures=GPT2) == tasks_for("gpt-sw3", architectures=GPT2)


@pytest.mark.parametrize("model_type", ["gemma4", "llama4", "shieldgemma2", "no_such_type"])
def test_a_type_with_a_class_of_its_own_or_none_has_no_row_of_another(model_type):
    assert row_of(model_type, ARCHITECTURES) is None


@pytest.mark.parametrize(("module", "owner"), [("transformers.models.llama.modeling_llama", "llama"), ("mine", None)])
def test_a_type_that_transformers_does_not_list_has_the_row_of_the_class_of_its_model(module, owner):
    config = SimpleNamespace(to_dict=dict, model_type="mine")
    known = {"forward": None, "config": config, "config_class": LlamaConfig, "__module__": module}
    model = type("LlamaForCausalLM", (), known)()
    row = row_of("mine", ARCHITECTURES, model)
    assert (row and row.derived) == (owner and f"the row of {owner}, whose classes mine has")


def test_a_class_for_another_configuration_than_that_of_the_row_does_not_have_it():
    """MusicgenModel is a decoder, and its row is of the whole of Musicgen."""
    assert row_of("musicgen_decoder", ARCHITECTURES, every_head.tiny_model("musicgen", "feature-extraction")) is None


@pytest.mark.parametrize("model_type", BORROWERS)
def test_a_new_type_has_the_row_of_its_classes(model_type):
    if model_type not in CONFIG_MAPPING:
        pytest.skip("this version of transformers lacks the model type")
    spec = spec_for(model_type)
    assert spec.inputs == ARCHITECTURES[BORROWERS[model_type]].inputs
    assert tasks_for(model_type) == ("feature-extraction", "feature-extraction-with-past", "text-generation", TASK)


@pytest.mark.skipif("exaone" not in CONFIG_MAPPING, reason="this version of transformers lacks the model type")
def test_a_checkpoint_of_such_a_type_is_exported_with_a_cache(tmp_path):
    model = shrunk.model("exaone", "LlamaForCausalLM")
    done = exported_checkpoint(model, tmp_path, "--no-check", "--no-template-cache")
    assert "exaone · text-generation-with-past" in done.output
    assert "the row of llama, whose classes exaone has" in done.output
    result = assert_agreement(onnxfn.export(spec_for(model, TASK), model, tmp_path / "checked"))
    assert result.plan.parts[0].spec.name == "exaone"

"""The tables of transformers' auto classes, and the specs of the heads that they list."""

from types import SimpleNamespace

import every_head
import pytest
import shrunk
import tiny
import transformers
from agreement import assert_agreement
from command_line import exported_checkpoint
from packaging.version import Version
from transformers import LlamaConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

import onnxfn
from onnxfn.architectures import ARCHITECTURES
from onnxfn.architectures.families.heads import HEADS, family_head
from onnxfn.export.derive import auto_tables as its
from onnxfn.export.find.lookup import checkpoint_task, has_row, spec_for, tasks_for
from onnxfn.specs.axes import pattern
from onnxfn.specs.tasks.tasks import canonical, for_task

OTHER_TABLES = {
    "MODEL_FOR_IMAGE": "repeats the models for images of MODEL",
    "MODEL_FOR_PRETRAINING": "classes for the loss of pretraining; other tables have their heads",
}
"""The tables that no task reads -> why."""


def test_every_table_belongs_to_a_task_or_has_a_reason():
    """A former version of transformers lacks some of the tables. Two tasks read that of models that see or hear."""
    named = [*(name for task, names in its.TABLES.items() if task != "any-to-any" for name in names), *OTHER_TABLES]
    assert len(set(named)) == len(named)
    assert its.auto_tables().keys() <= set(named)


def test_every_name_of_a_table_that_is_not_that_of_its_task_is_right():
    assert {canonical(task) for task in its.OTHER_NAMES} == set(its.OTHER_NAMES)
    named = {name for names in its.OTHER_NAMES.values() for name in names}
    assert named <= its.auto_tables().keys() or Version(transformers.__version__) < Version("5.23")


def test_a_head_without_an_auto_class_is_loaded_by_its_own_class():
    assert its.listed_loader("bert", "fill-mask") == "AutoModelForMaskedLM"
    assert its.listed_loader("patchtst", "time-series-regression") == "PatchTSTForRegression"
    assert its.listed_loader("hubert", "automatic-speech-recognition") == "AutoModelForCTC"
    assert its.listed_loader("bert", "audio-xvector") is None


def test_an_encoder_is_a_task_of_its_own_where_the_model_has_more():
    assert "text-encoding" in its.listed_tasks("t5")
    assert "text-encoding" not in its.listed_tasks("bert")
    assert its.listed_classes("t5", "text-encoding") == ("T5EncoderModel",)


# The specs of heads


@pytest.mark.parametrize(
    ("model_type", "task", "outputs"),
    [
        ("mistral", "token-classification", {"logits": "batch_size sequence_length _"}),
        ("falcon", "text-classification", {"logits": "batch_size _"}),
        ("bert", "next-sentence-prediction", {"logits": "batch_size _"}),
        ("t5", "text-encoding", {"last_hidden_state": "batch_size sequence_length _"}),
        ("wav2vec2-bert", "audio-xvector", {"logits": "batch_size _", "embeddings": "batch_size _"}),
    ],
)
def test_a_family_knows_the_outputs_of_a_head_that_transformers_lists(model_type, task, outputs):
    spec = onnxfn.spec_for(model_type, task)
    assert {output.name: pattern(output.axes) for output in spec.outputs} == outputs
    assert spec.call.loader == its.listed_loader(model_type, task)


def test_each_family_of_heads_has_a_row():
    for heads in HEADS:
        overlay = heads.tasks.tasks[0]
        assert any(family_head(row, overlay.name) for row in onnxfn.ARCHITECTURES.values())


def test_a_backbone_of_images_of_any_size_has_a_size_for_each_map():
    outputs = onnxfn.spec_for("bit", "backbone").outputs
    assert pattern(outputs[1].axes) == "batch_size _ feature_height_1 feature_width_1"


def test_a_head_whose_class_is_that_of_a_task_of_the_row_has_its_outputs():
    row = onnxfn.spec_for("vitpose_backbone", "feature-extraction")
    assert onnxfn.spec_for("vitpose_backbone", "backbone").outputs == row.outputs
    assert [output.name for output in onnxfn.spec_for("lasr_ctc", "feature-extraction").outputs] == ["logits"]
    assert onnxfn.spec_for("vits", "feature-extraction").call.submodule == "vits.speech"


def test_a_run_of_a_model_without_weights_shows_the_outputs_of_a_head():
    spec = onnxfn.spec_for(tiny.config("patchtst"), "time-series-regression")
    assert {output.name: pattern(output.axes) for output in spec.outputs} == {"regression_outputs": "batch_size _"}
    assert spec.call.loader == "PatchTSTForRegression"
    assert spec.derived == "PatchTSTForRegression with the inputs of the row; task time-series-regression"


def test_a_model_type_has_the_tasks_of_its_row_and_of_the_tables():
    assert onnxfn.tasks_for("swinv2") == ("feature-extraction", "image-classification", "masked-im", "backbone")
    assert onnxfn.tasks_for({"model_type": "slanet"}) == onnxfn.tasks_for("slanet") == ("table-recognition",)


@pytest.mark.parametrize(
    ("model_type", "class_name", "task"),
    [
        ("bert", "BertForNextSentencePrediction", "next-sentence-prediction"),
        ("swinv2", "Swinv2Backbone", "backbone"),
        ("t5", "T5EncoderModel", "text-encoding"),
    ],
)
def test_a_model_has_the_head_of_its_class(model_type, class_name, task):
    config = SimpleNamespace(to_dict=dict, model_type=model_type)
    assert onnxfn.spec_for(type(class_name, (), {"forward": None, "config": config})()).task == task


def test_a_model_without_a_row_has_each_task_that_transformers_lists_for_its_class():
    model = shrunk.model("moss_transcribe_diarize", its.listed_classes("moss_transcribe_diarize", "text-generation")[0])
    assert [*onnxfn.plan(onnxfn.spec_for(model, "text2text-generation"), model)["decoder_model"].outputs] == ["logits"]
    assert onnxfn.spec_for(model, "text-generation-with-past").cache.rows


@pytest.mark.parametrize(
    ("model_type", "class_name", "task"),
    [
        ("mistral", "MistralForTokenClassification", "token-classification"),
        ("patchtst", "PatchTSTForRegression", "time-series-regression"),
    ],
)
def test_the_command_line_exports_a_checkpoint_of_a_head_that_no_row_names(model_type, class_name, task, tmp_path):
    result = exported_checkpoint(tiny.model(model_type, class_name), tmp_path)
    assert f"task: {task} (found)" in result.stdout
    assert "check passed" in result.stdout


def test_the_text_decoder_of_a_model_of_several_modalities_has_the_tasks_of_its_class():
    """transformers lists its class for the type of the whole model, and its configuration is one of a decoder."""
    assert its.is_listed("Llama4TextModel", "text-encoding")
    assert not its.is_listed("Llama4TextModel", "fill-mask")
    assert onnxfn.spec_for(tiny.model("llama4_text", "Llama4TextModel"), "text-encoding").task == "text-encoding"


# Model types whose models are built of the classes of another type have the row of that type

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
    assert its.class_type(name) == model_type


def test_a_type_with_a_row_has_that_row():
    assert all(its.row_of(name, ARCHITECTURES) is row for name, row in ARCHITECTURES.items())


def test_a_type_with_the_classes_of_another_has_the_row_of_that_under_its_own_name():
    spec = spec_for("gpt-sw3", architectures=GPT2)
    assert (spec.name, spec.derived) == ("gpt-sw3", "the row of gpt2, whose classes gpt-sw3 has")
    row = GPT2["gpt2"]
    assert (spec.inputs, spec.cache, spec.normalizer) == (row.inputs, row.cache, row.normalizer)
    assert for_task(spec, TASK).outputs == for_task(GPT2["gpt2"], TASK).outputs


def test_a_configuration_has_the_row_that_its_type_has():
    config = {"model_type": "gpt-sw3", "architectures": ["GPT2LMHeadModel"]}
    assert has_row(config, GPT2)
    assert spec_for(config, TASK, architectures=GPT2) == spec_for("gpt-sw3", TASK, architectures=GPT2)
    assert checkpoint_task(config, architectures=GPT2) == TASK
    assert tasks_for(config, architectures=GPT2) == tasks_for("gpt-sw3", architectures=GPT2)


@pytest.mark.parametrize("model_type", ["gemma4", "llama4", "shieldgemma2", "no_such_type"])
def test_a_type_with_a_class_of_its_own_or_none_has_no_row_of_another(model_type):
    assert its.row_of(model_type, ARCHITECTURES) is None


@pytest.mark.parametrize(("module", "owner"), [("transformers.models.llama.modeling_llama", "llama"), ("mine", None)])
def test_a_type_that_transformers_does_not_list_has_the_row_of_the_class_of_its_model(module, owner):
    config = SimpleNamespace(to_dict=dict, model_type="mine")
    known = {"forward": None, "config": config, "config_class": LlamaConfig, "__module__": module}
    row = its.row_of("mine", ARCHITECTURES, type("LlamaForCausalLM", (), known)())
    assert (row and row.derived) == (owner and f"the row of {owner}, whose classes mine has")


def test_a_class_for_another_configuration_than_that_of_the_row_does_not_have_it():
    """MusicgenModel is a decoder, and its row is of the whole of Musicgen."""
    model = every_head.tiny_model("musicgen", "feature-extraction")
    assert its.row_of("musicgen_decoder", ARCHITECTURES, model) is None


@pytest.mark.parametrize("model_type", BORROWERS)
def test_a_new_type_has_the_row_of_its_classes(model_type):
    if model_type not in CONFIG_MAPPING:
        pytest.skip("this version of transformers lacks the model type")
    assert spec_for(model_type).inputs == ARCHITECTURES[BORROWERS[model_type]].inputs
    assert tasks_for(model_type) == ("feature-extraction", "feature-extraction-with-past", "text-generation", TASK)


@pytest.mark.skipif("exaone" not in CONFIG_MAPPING, reason="this version of transformers lacks the model type")
def test_a_checkpoint_of_such_a_type_is_exported_with_a_cache(tmp_path):
    model = shrunk.model("exaone", "LlamaForCausalLM")
    done = exported_checkpoint(model, tmp_path, "--no-check", "--no-template-cache")
    assert "exaone · text-generation-with-past" in done.output
    assert "the row of llama, whose classes exaone has" in done.output
    result = assert_agreement(onnxfn.export(spec_for(model, TASK), model, tmp_path / "checked"))
    assert result.plan.parts[0].spec.name == "exaone"

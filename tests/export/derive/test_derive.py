"""Specs are derived from models without a row. With a row, the derived spec and the row have the same plan."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import onnxruntime
import pytest
import shrunk
import tiny
import torch
from agreement import assert_agreement
from command_line import succeed
from small_modules import module

import onnxfn
from onnxfn import ARCHITECTURES, CaptureFailed, InvalidSpec, UnknownName


def plans(spec, model):
    return [(part.name, part.inputs, part.outputs) for part in onnxfn.plan(spec, model).parts]


SAME = json.loads(Path(__file__).with_name("same_plans.json").read_text())
"""Model types, their classes and tasks."""


@pytest.mark.parametrize(("model_type", "loader", "task"), SAME)
def test_a_derived_spec_has_the_plan_of_the_row(model_type, loader, task):
    model = tiny.model(model_type, loader)
    derived = onnxfn.derived(model, task)
    assert plans(derived, model) == plans(onnxfn.spec_for(model_type, task), model)
    assert derived.derived is not None


UNROWED = {name: row for name, row in ARCHITECTURES.items() if name not in ("bert", "gpt2", "t5", "vit")}


@pytest.mark.parametrize(
    ("model_type", "loader", "task"),
    [
        ("bert", "AutoModelForMaskedLM", None),
        ("gpt2", "AutoModelForCausalLM", "text-generation-with-past"),
        ("t5", "AutoModelForSeq2SeqLM", "text2text-generation-with-past"),
        ("vit", "AutoModelForImageClassification", None),
    ],
)
def test_a_model_without_a_row_is_exported_and_agrees(model_type, loader, task, tmp_path):
    model = tiny.model(model_type, loader)
    spec = onnxfn.spec_for(model, task, architectures=UNROWED)
    assert type(model).__name__ in str(spec)
    assert_agreement(onnxfn.export(spec, model, tmp_path / "out"))


@pytest.mark.parametrize(
    ("model_type", "kind", "task", "input_name"),
    [
        ("lfm3", "Lfm3ForCausalLM", "text-generation-with-past", "past_conv.0"),  # its cache has two kinds of state
        ("sam_vision_model", "SamVisionModel", "feature-extraction", "pixel_values"),
        ("qwen3_asr_encoder", "Qwen3ASREncoder", "feature-extraction", "input_features_mask"),  # of whole chunks
        ("gemma3n_audio", "Gemma3nAudioEncoder", "feature-extraction", "audio_mel_mask"),  # required, as no other
    ],
)
def test_a_model_type_without_a_row_agrees(model_type, kind, task, input_name, tmp_path):
    model = shrunk.model(model_type, kind)
    assert input_name in assert_agreement(onnxfn.export(onnxfn.derived(model, task), model, tmp_path / "out")).inputs


def test_known_arguments_that_are_no_inputs_are_listed():
    """This model also runs on texts alone; the spec states that `pixel_values` is no input."""
    spec = onnxfn.derived(shrunk.model("florence2", "Florence2Model"))
    assert spec.derived == (
        "Florence2Model.forward(input_ids, attention_mask, decoder_input_ids); without pixel_values; "
        "task feature-extraction"
    )


@pytest.mark.parametrize(("model_type", "task"), [("gpt2", "text-generation-with-past"), ("vit", "feature-extraction")])
def test_a_spec_from_a_configuration_has_the_plan_of_the_row(model_type, task):
    config = tiny.config(model_type)
    derived = onnxfn.spec_for(config, task, architectures=UNROWED)
    assert plans(derived, config) == plans(onnxfn.spec_for(config, task), config)


def test_a_configuration_without_a_row_has_the_tasks_of_its_classes():
    tasks = onnxfn.tasks_for(tiny.config("bert"), architectures=UNROWED)
    assert {"feature-extraction", "fill-mask", "multiple-choice"} <= set(tasks)


def test_a_model_without_known_inputs_raises_an_error_with_its_arguments_and_a_remedy():
    model = tiny.model("bert")
    model.forward = lambda quantum_state: quantum_state
    with pytest.raises(InvalidSpec, match=r"forward takes quantum_state, of which quantum_state is not known.*sample="):
        onnxfn.derived(model)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("zaya")
    assert "zaya" not in ARCHITECTURES
    shrunk.model("zaya", "ZayaForCausalLM").save_pretrained(path)
    return path


@pytest.mark.parametrize(
    ("options", "task", "name"),
    [((), "text-generation-with-past", "ZayaForCausalLM"), (("--task", "feature-extraction"), "", "ZayaModel")],
)
def test_the_command_line_derives_a_spec_and_prints_where_it_comes_from(options, task, name, folder, tmp_path):
    process = succeed("export", folder, tmp_path / "out", *options)
    origin = f"derived from {name}.forward(input_ids, attention_mask, position_ids); task {task}"
    assert origin in " ".join(process.stdout.split())
    assert (tmp_path / "out" / "onnx" / "model.onnx").is_file()


def test_an_error_with_a_derived_spec_states_that_it_was_derived(tmp_path):
    model = tiny.model("bert")
    spec = onnxfn.with_output(onnxfn.derived(model), "missing", "batch_size _")
    with pytest.raises(
        CaptureFailed, match=r"'missing'.*; the spec was derived from BertModel.forward.*write the spec yourself"
    ):
        onnxfn.export(spec, model, tmp_path / "out")


# Models that cannot run with a cache


def text_model(error, device="cpu"):
    """A model of texts whose `forward` raises `error` when it is called with a cache."""

    def forward(self, input_ids, past_key_values=None, *, use_cache=None, return_dict=None):
        if use_cache:
            raise error
        return {"logits": self.embedding(input_ids)}

    config = SimpleNamespace(model_type="mine", to_dict=lambda: {"vocab_size": 32})
    return module(forward, embedding=torch.nn.Embedding(32, 4, device=device), config=config)


REFUSALS = [ValueError("no use_cache=True"), TypeError("unexpected argument"), NotImplementedError("later")]


@pytest.mark.parametrize("error", REFUSALS, ids=lambda error: type(error).__name__)
def test_a_model_that_refuses_a_cache_has_a_spec_without_one_that_states_the_reason(error):
    spec = onnxfn.derived(text_model(error), "text-generation")
    reason = f"{type(error).__name__}: {error}"
    assert spec.derived == f"Module.forward(input_ids); task text-generation; no cache: {reason}"
    assert [output.name for output in spec.outputs] == ["logits"]
    assert not spec.cache.rows


def test_a_task_with_past_is_refused_with_the_reason_why_the_model_has_no_cache():
    with pytest.raises(InvalidSpec, match=r"has no task text-generation-with-past; .* cache: ValueError: no use_cache"):
        onnxfn.derived(text_model(ValueError("no use_cache=True")), "text-generation-with-past")


def test_a_model_of_transformers_that_refuses_a_cache_states_the_reason():
    """The cache of transformers 5.23 raises ValueError for a model without attention layers."""
    spec = onnxfn.derived(tiny.model("recurrent_gemma", "AutoModelForCausalLM"), "text-generation")
    assert "; task text-generation; no cache: ValueError: " in spec.derived


@pytest.mark.parametrize(
    "error",
    [MemoryError(), RuntimeError("out of memory"), InvalidSpec("a mistake of onnxfn"), AttributeError("a mistake")],
    ids=lambda error: type(error).__name__,
)
def test_an_error_that_is_no_refusal_of_a_cache_propagates(error):
    for task in ("text-generation", "text-generation-with-past"):
        with pytest.raises(type(error)) as caught:
            onnxfn.derived(text_model(error), task)
        assert caught.value is error


def test_values_that_a_meta_tensor_lacks_do_not_mean_that_a_model_has_no_cache():
    error = NotImplementedError("Cannot copy out of meta tensor; no data!")
    with pytest.raises(NotImplementedError):
        onnxfn.derived(text_model(error, device="meta"), "text-generation")


# Any module


def test_any_module_has_a_spec_from_a_sample(tmp_path):
    """Two float inputs with axes of other names, and nested outputs."""

    def forward(self, left, right, flags, gain=1.0):
        mixed = self.mix(left) * gain
        chosen = right[flags.long().argmax()]
        return {"scores": mixed @ right.transpose(1, 2), "loss": (mixed.sum(-1), {"chosen": chosen})}

    model = module(forward, mix=torch.nn.Linear(6, 3))
    sample = {"left": torch.randn(2, 5, 6), "right": torch.randn(2, 7, 3), "flags": torch.tensor([True, False])}
    spec = onnxfn.derived(model, sample=sample, axes={"left": "batch_size rows _", "right": "batch_size columns _"})
    assert onnxfn.inputs(spec, {})["right"] == {0: "batch_size", 1: "columns"}
    result = onnxfn.export(spec, model, tmp_path / "towers.onnx")
    assert result.report.passed
    assert result.outputs == {
        "scores": {0: "batch_size", 1: "rows", 2: "columns"},
        "loss.0": {0: "batch_size", 1: "rows"},
        "loss.1.chosen": {0: "columns"},
    }


def test_a_sample_without_a_pattern_has_a_dynamic_first_axis(tmp_path):
    spec = onnxfn.derived(torch.nn.Linear(4, 2), sample={"input": torch.randn(1, 3, 4)})
    assert onnxfn.inputs(spec, {}) == {"input": {0: "batch_size"}}
    assert [output.name for output in spec.outputs] == ["output"]
    assert onnxfn.export(spec, torch.nn.Linear(4, 2), tmp_path / "linear.onnx").report.passed


@pytest.mark.parametrize(
    ("sample", "axes", "error", "message"),
    [
        ({"inptu": 2}, {}, UnknownName, "no argument 'inptu' for the forward of Linear; known: input; did you mean"),
        ({"input": 2}, {"inptu": "_"}, UnknownName, "no tensor 'inptu' for the sample; known: input"),
        ({"input": 2}, {"input": "batch_size"}, InvalidSpec, "has 2 axes [2, 4], and its pattern is 'batch_size'"),
        ({"input": 2}, {"input": "batch_size 5"}, InvalidSpec, "has 2 axes [2, 4], and its pattern is 'batch_size 5'"),
    ],
)
def test_a_sample_that_does_not_fit_raises_an_error(sample, axes, error, message):
    tensors = {name: torch.randn(rows, 4) for name, rows in sample.items()}
    with pytest.raises(error, match=re.escape(message)):
        onnxfn.derived(torch.nn.Linear(4, 2), sample=tensors, axes=axes)


def test_a_vision_tower_without_a_row_takes_images_of_any_grid(tmp_path):
    """Grids that were not traced: other numbers of images and patches, a video of several frames."""
    model = shrunk.model("qwen2_5_vl_vision", "Qwen2_5_VisionTransformerPretrainedModel")
    result = assert_agreement(onnxfn.export(onnxfn.derived(model), model, tmp_path / "out"))
    session = onnxruntime.InferenceSession(tmp_path / "out" / "model.onnx")
    for grid in ([[3, 4, 6], [1, 10, 2]], [[1, 2, 2]], [[1, 6, 6], [2, 4, 4], [1, 14, 2]]):
        images = torch.tensor(grid)
        patches = torch.randn(int(images.prod(-1).sum()), 384)
        with torch.no_grad():
            expected = model(patches, grid_thw=images).pooler_output
        actual = session.run(["pooler_output"], {"hidden_states": patches.numpy(), "grid_thw": images.numpy()})[0]
        assert abs(actual - expected.numpy()).max() < 1e-4
    assert tuple(result.plan.parts[0].outputs) == ("last_hidden_state", "pooler_output")


@pytest.mark.parametrize(
    ("model_type", "name", "reason"),
    [
        (
            "sam2_video",
            "Sam2VideoModel",
            "forward takes inference_session, .*, of which inference_session is not known; write the spec yourself",
        ),
        ("bark", "BarkModel", "^BarkModel has no forward: derive a spec from a model inside it$"),
    ],
)
def test_a_model_that_no_graph_can_be_is_refused_with_the_reason(model_type, name, reason):
    """The configuration is small, the model has no weights: only its class is asked."""
    with torch.device("meta"):
        model = shrunk.kind(model_type, name)(shrunk.config(model_type))
    with pytest.raises(InvalidSpec, match=reason):
        onnxfn.derived(model)


def test_a_model_whose_forward_takes_no_embeddings_is_one_graph():
    model = shrunk.model("neomme", "NeoMMEModel")
    assert list(onnxfn.plan(onnxfn.spec_for(model, "feature-extraction"), model).files) == ["model.onnx"]

"""No export of a model of several modalities leaves one out in silence; masks that rows leave out can be taken."""

import inspect
import json
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import shrunk
import tiny
import transformers
from agreement import assert_agreement
from command_line import invoke, succeed
from transformers.models.auto import modeling_auto, processing_auto

import onnxfn
from onnxfn import EMPTY, OnnxfnError, Plan, spec_for, with_input
from onnxfn.export.derive.candidate_inputs import processed_arguments
from onnxfn.export.publish.staging import Destination
from onnxfn.export.run.planned_files import plan_for_destination
from onnxfn.specs.plan.real_inputs import left_out
from onnxfn.specs.results.output_types import MAIN_INPUTS, MODALITY_OF
from onnxfn.weights.layouts import LAYOUTS

TABLES = (
    modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
    modeling_auto.MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES,
    modeling_auto.MODEL_MAPPING_NAMES,
)
PREPARES = {"tokenizer": "text", "image_processor": "image", "video_processor": "video", "feature_extractor": "audio"}
"""A component of a processor -> what it prepares."""


def model_types():
    """The model types that transformers lists as models of several modalities, or whose processor has several."""
    return sorted({*TABLES[0], *TABLES[1], *processing_auto.PROCESSOR_MAPPING_NAMES})


def class_names(model_type):
    """The classes of a model type in TABLES that have a `forward` of their own."""
    entries = (table[model_type] for table in TABLES if model_type in table)
    names = dict.fromkeys(entry if isinstance(entry, str) else entry[0] for entry in entries)
    return [name for name in names if len(inspect.signature(getattr(transformers, name).forward).parameters) > 2]


@cache
def prepared(model_type):
    """What the components of the processor of a model type prepare, as its class names them."""
    name = processing_auto.PROCESSOR_MAPPING_NAMES.get(model_type)
    try:
        components = getattr(transformers, name).get_attributes() if name else ()
    except ImportError:  # no library for images: the tables of models still say what the model reads
        components = ()
    return {PREPARES[component] for component in components if component in PREPARES}


def lines(model_type, name, planned):
    """The arguments that a plan leaves out of a model of this class, of which only the signature is used."""
    forward = partial(getattr(transformers, name).forward, None)
    config = transformers.PretrainedConfig()
    config.model_type = model_type
    return left_out(EMPTY, planned, *processed_arguments(SimpleNamespace(forward=forward, config=config)))


NOT_READ = json.loads(Path(__file__).with_name("not_read.json").read_text())
"""Class -> what its processor prepares, or its table says, for which `forward` has no argument; the reason."""


def test_every_model_of_several_modalities_names_those_that_a_plan_leaves_out():
    pairs = [(model_type, name) for model_type in model_types() for name in class_names(model_type)]
    assert len(pairs) > 250
    for model_type, name in pairs:
        table = TABLES[0].get(model_type, ())
        listed = {"image"} if name in (table, *table) else set()
        read = (listed | prepared(model_type)) - {"text"}  # a tokenizer may write what a model says
        named = {MODALITY_OF.get(line.name) for line in lines(model_type, name, Plan(()))}
        assert read - named <= {*NOT_READ.get(name, [()])[0]}, name


def test_the_images_that_forward_hands_on_to_an_encoder_are_named():
    assert "pixel_values" in {line.name for line in planned("diffusion_gemma", "DiffusionGemmaModel").left_out}


def planned(model_type, name, task=None):
    model = shrunk.model(model_type, name)
    layout = LAYOUTS["optimum"]
    return plan_for_destination(spec_for(model, task), model, None, Destination(Path("o")), layout, decoders="merged")


def assert_every_modality_is_named(model_type, name, task=None):
    """The modalities of a plan, and of its lines, are those that the model's `forward` has."""
    result = planned(model_type, name, task)
    parameters = inspect.signature(getattr(transformers, name).forward).parameters
    named = {MODALITY_OF.get(line.name) for line in result.left_out}
    content = {modality for modality, names in MAIN_INPUTS.items() if not parameters.keys().isdisjoint(names)}
    assert content <= {*result.modalities} | named
    assert all(str(line) in str(result) for line in result.left_out)
    return result


@pytest.mark.parametrize(
    ("model_type", "names"),
    {
        "aria": {"pixel_values", "pixel_mask"},
        "florence2": {"pixel_values"},
        "idefics2": {"pixel_values", "pixel_attention_mask"},
        "mllama": {"pixel_values", "aspect_ratio_mask", "aspect_ratio_ids", "cross_attention_mask"},
        "video_llava": {"pixel_values", "pixel_values_images", "pixel_values_videos"},
    }.items(),
)
def test_the_images_of_a_model_whose_graph_takes_texts_alone_are_named(model_type, names):
    task = "text2text-generation" if model_type == "florence2" else "text-generation"
    result = assert_every_modality_is_named(model_type, TABLES[0][model_type], task)
    assert result.modalities == ("text",)
    assert {line.name for line in result.left_out} == names
    line = next(str(line) for line in result.left_out if line.name == "pixel_values")
    assert line.startswith("pixel_values is left out: the plan has no images; to try, derive a spec from a sample")


NOTHING_EXPORTED = (OnnxfnError, ArithmeticError, AttributeError, ImportError, LookupError, RuntimeError, TypeError)
NOTHING_EXPORTED += (ValueError,)
"""The errors of a model that onnxfn refuses, or that transformers cannot make here: no plan leaves anything out."""


@pytest.mark.sweep
@pytest.mark.parametrize("model_type", model_types())
def test_the_plan_of_every_model_of_several_modalities_names_them(model_type):
    try:
        assert_every_modality_is_named(model_type, class_names(model_type)[0])
    except NOTHING_EXPORTED as error:
        pytest.skip(f"nothing is exported: {error}")


MASKED = [
    ("wav2vec2", "automatic-speech-recognition", "attention_mask", {"feat_extract_norm": "layer"}),
    ("siglip", "feature-extraction", "attention_mask", {}),
    *(
        pytest.param(model_type, task, name, options, marks=pytest.mark.sweep)
        for model_type, task, name, options in (
            ("wav2vec2", "feature-extraction", "attention_mask", {}),
            ("hubert", "audio-classification", "attention_mask", {"feat_extract_norm": "layer"}),
            ("hubert", "feature-extraction", "attention_mask", {}),
            ("wavlm", "feature-extraction", "attention_mask", {}),
            ("detr", "object-detection", "pixel_mask", {}),
        )
    ),
]


@pytest.mark.parametrize(("model_type", "task", "name", "options"), MASKED)
def test_a_mask_that_the_row_leaves_out_can_be_taken(model_type, task, name, options, tmp_path):
    spec = with_input(spec_for(model_type, task), name)
    model = tiny.model(model_type, spec.call.loader, **options)
    result = assert_agreement(onnxfn.export(spec, model, tmp_path / "out"))
    inputs = onnxfn.dummy_inputs(spec, model, "np")
    inputs[name][...] = 1
    unmasked = result(**inputs)
    inputs[name][..., inputs[name].shape[-1] // 2 :] = 0
    masked = result(**inputs)
    assert any(not np.allclose(masked[output], unmasked[output], atol=1e-4) for output in masked)
    assert result.plan.left_out == ()


def test_the_command_line_prints_what_is_left_out_and_takes_it(tmp_path):
    checkpoint = tmp_path / "wav2vec2"
    tiny.model("wav2vec2", "AutoModelForCTC").save_pretrained(checkpoint)
    words = ["export", str(checkpoint), "--no-check", "--no-template-cache"]
    first = succeed(*words, tmp_path / "first")
    assert "attention_mask is left out: the spec of wav2vec2 has no such input" in first.stdout
    report = json.loads((tmp_path / "first" / "report.json").read_text())
    assert (report["modalities"], [line["name"] for line in report["left_out"]]) == (["audio"], ["attention_mask"])
    assert report["left_out"][0]["edit"] == 'with_input(spec, "attention_mask")'
    assert "is left out" not in succeed(*words, tmp_path / "second", "--with-input", "attention_mask").stdout
    report = json.loads((tmp_path / "second" / "report.json").read_text())
    ports = report["graphs"]["onnx/model.onnx"]["inputs"]
    assert [port["name"] for port in ports] == ["input_values", "attention_mask"]
    refused = invoke(*words, tmp_path / "third", "--with-input", "pixel_mask")
    assert "cannot add 'pixel_mask' to wav2vec2" in refused.stderr


def test_the_command_line_leaves_out_the_masks_that_transformers_js_does_not_give(tmp_path):
    """A mask of ones is none: the files without masks give what PyTorch gives without."""
    tiny.model("moonshine", "AutoModelForSpeechSeq2Seq").save_pretrained(tmp_path / "moonshine")
    flags = ["--without", "attention_mask", "--without", "encoder_attention_mask"]
    words = ["export", str(tmp_path / "moonshine"), str(tmp_path / "out"), "--no-template-cache", *flags]
    succeed(*words)
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["check"]["status"] == "passed"
    names = {port["name"] for graph in report["graphs"].values() for port in graph["inputs"]}
    assert not any("mask" in name for name in names)
    assert not [line for line in report["remarks"] if line.startswith("transformers.js")]
    refused = invoke(*words[:2], tmp_path / "other", "--without", "attention_masks")
    assert "attention_masks" in refused.stderr
    assert "did you mean" in refused.stderr

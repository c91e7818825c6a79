"""Models of two parts, each a file of its own, and options of configurations that change a spec."""

import onnxruntime
import pytest
import tiny
import torch
from agreement import assert_agreement
from session_outputs import outputs_of
from sizes import SHARED, SPECIAL

import onnxfn
from onnxfn.architectures import multimodal

FEATURES = "feature-extraction"
SPLIT = [name for name, row in multimodal.ROWS.items() if row.parts.behaviors]


@pytest.mark.sweep
@pytest.mark.parametrize("model_type", SPLIT)
def test_the_parts_of_a_model_agree_with_pytorch(model_type, tmp_path):
    spec, model = tiny.spec_and_model(model_type, FEATURES)
    assert len(assert_agreement(onnxfn.export(onnxfn.split(spec), model, tmp_path / "out")).plan.parts) == 2


def test_the_vectors_of_both_parts_compare_as_those_of_the_model(tmp_path):
    spec, model = tiny.spec_and_model("clip", FEATURES)
    assert_agreement(onnxfn.export(onnxfn.split(spec), model, tmp_path / "out"))
    arguments = onnxfn.dummy_inputs(spec, model, text_batch_size=5, batch_size=3)
    vectors = {}
    for part in ("vision_model", "text_model"):
        session = onnxruntime.InferenceSession(str(tmp_path / "out" / f"{part}.onnx"))
        (output,) = outputs_of(session, {name: array.numpy() for name, array in arguments.items()}).values()
        vectors[part] = torch.nn.functional.normalize(torch.from_numpy(output), dim=-1)
    logits = vectors["vision_model"] @ vectors["text_model"].T * model.logit_scale.exp()
    with torch.no_grad():
        expected = model(**arguments).logits_per_image
    assert logits.shape == (3, 5)
    assert torch.allclose(logits, expected, atol=1e-4)


def test_a_model_without_two_towers_is_refused(tmp_path):
    spec, model = tiny.spec_and_model("clip", "image-classification")
    with pytest.raises(onnxfn.InvalidSpec, match="CLIPForImageClassification does not have the part"):
        onnxfn.export(onnxfn.split(spec), model, tmp_path / "out")


def test_a_text_ends_at_its_highest_token_with_the_end_token_of_old_configurations(tmp_path):
    text = {**SHARED["text"], "eos_token_id": 2}
    assert_agreement(onnxfn.export(*tiny.spec_and_model("clip", FEATURES, text_config=text), tmp_path / "out"))


@pytest.mark.sweep
def test_a_clap_with_fusion_has_an_input_for_long_sounds(tmp_path):
    sound = {**SPECIAL["clap"]["audio_config"], "enable_fusion": True}
    result = assert_agreement(onnxfn.export(*tiny.spec_and_model("clap", FEATURES, audio_config=sound), tmp_path / "o"))
    assert "is_longer" in result.inputs


def test_hidden_states_are_outputs_where_the_configuration_asks_for_them(tmp_path):
    result = assert_agreement(
        onnxfn.export(*tiny.spec_and_model("siglip_text_model", FEATURES, output_hidden_states=True), tmp_path / "out")
    )
    layers = {f"hidden_states.{layer}": {0: "batch_size", 1: "sequence_length"} for layer in range(3)}
    assert {name: axes for name, axes in result.outputs.items() if name.startswith("hidden")} == layers

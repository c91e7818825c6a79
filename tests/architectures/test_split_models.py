"""Models of two parts, each a file of its own; what a configuration changes of them."""

from __future__ import annotations

import pytest
import tiny
from agreement import assert_agreement

import onnxfn
from onnxfn.architectures import multimodal

PAIRS = [name for name, row in multimodal.ROWS.items() if row.parts.behaviors]


def agrees(spec, model, folder):
    return assert_agreement(onnxfn.export(spec, model, folder), folder)


def whole(model_type, task="feature-extraction", **overrides):
    spec = onnxfn.spec_for(model_type, task)
    return spec, tiny.model(model_type, spec.call.loader, **overrides)


@pytest.mark.sweep
@pytest.mark.parametrize("model_type", PAIRS)
def test_the_parts_of_a_model_agree_with_pytorch(model_type, tmp_path):
    spec, model = whole(model_type)
    done = agrees(onnxfn.split(spec), model, tmp_path / "out")
    assert len(done.plan.parts) == 2


def test_what_the_parts_give_compares_as_the_whole_does(tmp_path):
    import onnxruntime
    import torch

    spec, model = whole("clip")
    agrees(onnxfn.split(spec), model, tmp_path / "out")
    given = onnxfn.dummy_inputs(spec, model, text_batch_size=5, batch_size=3)
    halves = {}
    for part in ("vision_model", "text_model"):
        session = onnxruntime.InferenceSession(str(tmp_path / "out" / f"{part}.onnx"))
        names = [one.name for one in session.get_inputs()]
        (vectors,) = session.run(None, {name: given[name].numpy() for name in names})
        halves[part] = torch.nn.functional.normalize(torch.from_numpy(vectors), dim=-1)
    made = halves["vision_model"] @ halves["text_model"].T * model.logit_scale.exp()
    with torch.no_grad():
        expected = model(**given).logits_per_image
    assert made.shape == (3, 5)
    assert torch.allclose(made, expected, atol=1e-4)


def test_a_model_without_two_halves_is_refused(tmp_path):
    spec, model = whole("clip", "image-classification")
    with pytest.raises(onnxfn.InvalidSpec, match="not made of two towers"):
        onnxfn.export(onnxfn.split(spec), model, tmp_path / "out")


def test_texts_end_at_their_highest_token_where_the_configuration_is_of_that_time(tmp_path):
    text = {**tiny.multimodal.TWO["text_config"], "eos_token_id": 2}
    agrees(*whole("clip", text_config=text), tmp_path / "out")


def test_a_clap_that_fuses_takes_what_is_longer(tmp_path):
    sound = {**tiny.multimodal.SPECIAL["clap"]["audio_config"], "enable_fusion": True}
    done = agrees(*whole("clap", audio_config=sound), tmp_path / "out")
    assert "is_longer" in done.inputs


def test_hidden_states_come_out_where_the_configuration_says_so(tmp_path):
    done = agrees(*whole("siglip_text_model", output_hidden_states=True), tmp_path / "out")
    layers = {f"hidden_states.{layer}": {0: "batch_size", 1: "sequence_length"} for layer in range(3)}
    assert {name: axes for name, axes in done.outputs.items() if name.startswith("hidden")} == layers

"""Whisper's two files for onnxruntime-genai, against PyTorch, and their `genai_config.json`."""

import json

import numpy as np
import pytest
import tiny
import torch
from session_outputs import outputs_of

import onnxfn
from onnxfn.run.sessions import open_session

TASK = "automatic-speech-recognition-with-past"
PROMPT, COUNT = [9, 4, 55, 16], 8


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whisper") / "out"
    model = tiny.model("whisper", "AutoModelForSpeechSeq2Seq")
    spec = onnxfn.whisper_for_genai(onnxfn.spec_for("whisper", TASK))
    return onnxfn.export(spec, model, folder, write=onnxfn.WriteOptions(layout="hub")), model, folder


def test_the_files_agree_with_pytorch_and_have_the_names_and_types_of_the_client(exported):
    result, _, _ = exported
    assert result.report.passed
    assert list(result.plan["encoder"].inputs) == ["audio_features"]
    assert list(result.plan["encoder"].outputs)[:3] == ["hidden_states", "present_key_cross_0", "present_value_cross_0"]
    decoder = result.plan["decoder"]
    past = [f"past_{kind}_{of}_0" for of in ("self", "cross") for kind in ("key", "value")]
    assert list(decoder.inputs)[:5] == ["input_ids", *past]
    assert decoder.spec.inputs["input_ids"].kind == "int32"
    assert list(decoder.outputs)[:3] == ["logits", "present_key_self_0", "present_value_self_0"]


def test_the_two_files_write_the_tokens_of_pytorch(exported):
    _, model, folder = exported
    encoder, decoder = (open_session(folder / "onnx" / f"{name}.onnx") for name in ("encoder", "decoder"))
    shape = (1, model.config.num_mel_bins, 2 * model.config.max_source_positions)
    sound = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    states = outputs_of(encoder, {"audio_features": sound})
    cross = {name.replace("present", "past"): array for name, array in states.items() if "cross" in name}
    past = [port for port in decoder.get_inputs() if "self" in port.name]
    own = {port.name: np.zeros([1, port.shape[1], 0, port.shape[3]], np.float32) for port in past}
    written, new = list(PROMPT), list(PROMPT)
    for _ in range(COUNT):
        outputs = outputs_of(decoder, {"input_ids": np.array([new], np.int32), **cross, **own})
        own = {name: outputs[name.replace("past", "present")] for name in own}
        new = [int(outputs["logits"][0, -1].argmax())]
        written += new
    expected = torch.tensor([PROMPT])
    with torch.no_grad():
        for _ in range(COUNT):
            logits = model(input_features=torch.tensor(sound), decoder_input_ids=expected).logits
            expected = torch.cat([expected, logits[:, -1:].argmax(-1)], dim=1)
    assert written == expected[0].tolist()


def test_the_side_file_names_both_files(exported):
    _, model, folder = exported
    block = json.loads((folder / "genai_config.json").read_text())["model"]
    assert (block["type"], block["context_length"]) == ("whisper", model.config.max_target_positions)
    assert (block["encoder"]["filename"], block["decoder"]["filename"]) == ("onnx/encoder.onnx", "onnx/decoder.onnx")
    assert block["decoder"]["inputs"]["cross_past_key_names"] == "past_key_cross_%d"
    assert block["encoder"]["head_size"] == model.config.d_model // model.config.encoder_attention_heads

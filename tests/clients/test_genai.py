import json

import numpy as np
import pytest
import tiny
import torch
from cases import CHAT, TEXTS
from exporting import exported, reference
from pairs import tensor
from pytorch_results import added
from running import run_client

import onnxfn

pytestmark = pytest.mark.clients

COUNT = 12
TASK = "text-generation-with-past"
SPEECH = "automatic-speech-recognition-with-past"
HEARD = [9, 4, 55, 16]
"""The tokens before those of a sound."""

FRAMES = 1500
"""The states of a sound for the decoder, a number that the runtime has as a constant."""

DECODERS = ("llama", "gpt2", "smollm2")


@pytest.mark.parametrize("checkpoint", DECODERS)
@pytest.mark.parametrize("prompt", [{"text": TEXTS[0]}, {"messages": CHAT}], ids=["text", "chat"])
def test_a_decoder_writes_the_text_of_pytorch(checkpoint, prompt, exports, note):
    note({"client": "genai", "kind": "text" if "text" in prompt else "chat", "case": checkpoint})
    folder = exported(exports, checkpoint, TASK)
    given = run_client("genai", {"folder": str(folder), "count": COUNT, **prompt})["result"]
    assert given == written_text(reference(exports, checkpoint, folder, "AutoModelForCausalLM"), prompt)


def test_texts_of_a_batch_get_what_each_gets_alone(exports, note):
    """Its tokenizer pads on the right, and no token attends to padding there."""
    note({"client": "genai", "kind": "text", "case": "llama, three texts in a batch"})
    folder = exported(exports, "llama", TASK)
    given = run_client("genai", {"folder": str(folder), "count": COUNT, "texts": TEXTS})["result"]
    source = reference(exports, "llama", folder, "AutoModelForCausalLM")
    assert given == [written_text(source, {"text": text}) for text in TEXTS]


def test_a_decoder_that_takes_num_logits_to_keep_gets_it(exports, note):
    """The runtime gives the input to a decoder that has it."""
    flags = ("--with-input=num_logits_to_keep",)
    note({"client": "genai", "kind": "text", "case": "llama, num_logits_to_keep", "flags": flags})
    folder = exported(exports, "llama", TASK, flags)
    source = reference(exports, "llama", folder)
    given = run_client("genai", {"folder": str(folder), "count": COUNT, "text": TEXTS[0]})["result"]
    assert "num_logits_to_keep" in source.names
    assert given == written_text(source, {"text": TEXTS[0]})


@pytest.mark.parametrize("checkpoint", ["llama", "qwen2", "smollm2"])
def test_past_and_present_may_lie_in_one_buffer(checkpoint, exports, note):
    """`genai_config.json` says that they do; the runtime gives the same memory as past and as present."""
    flags = ("--shared-cache",)
    note({"client": "genai", "kind": "text", "case": f"{checkpoint}, shared cache", "flags": flags})
    folder = exported(exports, checkpoint, TASK, flags)
    assert json.loads((folder / "genai_config.json").read_text())["search"]["past_present_share_buffer"] is True
    given = run_client("genai", {"folder": str(folder), "count": COUNT, "text": TEXTS[0]})["result"]
    assert given == written_text(reference(exports, checkpoint, folder, "AutoModelForCausalLM"), {"text": TEXTS[0]})


def test_whisper_writes_the_tokens_of_pytorch(tmp_path, note):
    """The files are those of `whisper_for_genai`; the features of the sound are given as they are."""
    note({"client": "genai", "kind": "automatic-speech-recognition", "case": "whisper, whisper_for_genai"})
    model = tiny.model("whisper", "AutoModelForSpeechSeq2Seq", max_source_positions=FRAMES)
    spec = onnxfn.whisper_for_genai(onnxfn.spec_for(model, SPEECH))
    onnxfn.export(spec, model, tmp_path / "out", write=onnxfn.WriteOptions(layout="hub"))
    shape = (1, model.config.num_mel_bins, 2 * model.config.max_source_positions)
    features = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    job = {"folder": str(tmp_path / "out"), "ids": HEARD, "count": COUNT, "sound": tensor(features)}
    assert run_client("genai", job)["result"] == heard_tokens(model, torch.tensor(features))


def heard_tokens(model, features):
    """The tokens that PyTorch adds for a sound, the likeliest each time, without a cache."""
    ids, states = torch.tensor([HEARD]), model.model.encoder(features)
    for _ in range(COUNT):
        ids = torch.cat([ids, model(encoder_outputs=states, decoder_input_ids=ids).logits[:, -1:].argmax(-1)], dim=1)
    return ids[0, len(HEARD) :].tolist()


def written_text(reference, prompt):
    template = reference.tokenizer.apply_chat_template
    text = prompt.get("text") or template(CHAT, add_generation_prompt=True, tokenize=False)
    return added(reference, text, {"max_new_tokens": COUNT})

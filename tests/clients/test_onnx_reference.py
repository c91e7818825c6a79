"""onnx.reference, which knows the ONNX standard alone, gives what PyTorch gives: the graphs are pure ONNX."""

import pytest
import torch
from cases import TEXTS, image
from exporting import exported, reference
from pairs import tensors
from pytorch_results import fed
from running import run_client

pytestmark = pytest.mark.clients

FILES = (
    ("bert masked", "fill-mask", "model"),
    ("vit", "image-classification", "model"),
    ("llama", "text-generation", "model"),
    ("t5", "text2text-generation", "encoder_model"),
)


@pytest.mark.parametrize(("checkpoint", "task", "name"), FILES, ids=lambda value: value.replace(" ", "-"))
def test_a_file_gives_what_pytorch_gives(checkpoint, task, name, exports, note, assert_close):
    note({"client": "onnx", "kind": task, "case": f"{checkpoint} {name}.onnx"})
    folder = exported(exports, checkpoint, task)
    model = reference(exports, checkpoint, folder)
    feeds = text_feeds(model) if model.tokenizer else image_feeds()
    job = {"file": str(folder / "onnx" / f"{name}.onnx"), "feeds": tensors(feeds)}
    given = run_client("onnx", job)["result"]
    called = model.model.get_encoder() if name == "encoder_model" else model.model
    expected = called(**feeds)
    assert_close(given, {key: expected[key].tolist() for key in given})


def text_feeds(model):
    inputs = fed(model, TEXTS[0])
    positions = {"position_ids": torch.arange(inputs["input_ids"].shape[1])[None]}
    return inputs | {key: value for key, value in positions.items() if key in model.names}


def image_feeds():
    points = torch.tensor(image(24, 24)["image"]["data"], dtype=torch.float32).reshape(1, 24, 24, 3)
    return {"pixel_values": points.movedim(3, 1) / 127.5 - 1}

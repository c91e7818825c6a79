"""onnxruntime-genai reads files of pictures by the steps in a folder, and writes PyTorch's tokens about them."""

import every_part
import numpy as np
import pytest
import torch
from exporting import export_folder
from running import run_client
from tiny_tokenizers import write_pieces

pytestmark = pytest.mark.clients

TASK, COUNT = "image-text-to-text-with-past", 8
BEGIN, END, IMAGE = MARKS = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>")
SIDES = ((50, 70), (96, 64))
"""Height and width of each picture."""


@pytest.fixture(scope="module", params=["qwen2_5_vl", "qwen3_vl"])
def seeing(request, tmp_path_factory):
    """A model, its tokenizer and image processor, the folder of its export, and the name of its type."""
    pytest.importorskip("PIL", reason="image processors of transformers need pillow")
    from transformers import AutoTokenizer
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    root = tmp_path_factory.mktemp(request.param)
    model, checkpoint = every_part.tiny_model(request.param, TASK), root / "checkpoint"
    write_pieces(checkpoint, last=MARKS)
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    model.resize_token_embeddings(len(tokenizer))
    config, vision = model.config, model.config.vision_config
    names = ("vision_start_token_id", "vision_end_token_id", "image_token_id")
    for name, token in zip(names, tokenizer.convert_tokens_to_ids(MARKS), strict=True):
        setattr(config, name, token)
    for each in (model.generation_config, config, config.get_text_config()):
        each.eos_token_id = None
    sizes = {"temporal_patch_size": vision.temporal_patch_size, "merge_size": vision.spatial_merge_size}
    pixels = {"shortest_edge": 16 * 16, "longest_edge": 64 * 64}
    processor = Qwen2VLImageProcessorPil(patch_size=vision.patch_size, size=pixels, **sizes)
    model.save_pretrained(checkpoint)
    processor.save_pretrained(checkpoint)
    return request.param, model, tokenizer, processor, export_folder(checkpoint, root / "out", TASK, ("--no-check",))


@pytest.mark.parametrize("count", [1, 2])
def test_onnxruntime_genai_reads_pictures(seeing, count, tmp_path, note):
    from PIL import Image

    model_type, model, tokenizer, processor, folder = seeing
    note({"client": "genai", "kind": "pictures", "case": f"{model_type}, {count} of {len(SIDES)}"})
    random = np.random.default_rng(0)
    pictures = [Image.fromarray(random.integers(0, 256, (*side, 3), dtype=np.uint8)) for side in SIDES[:count]]
    files = [str(tmp_path / f"{number}.png") for number in range(count)]
    for picture, file in zip(pictures, files, strict=True):
        picture.save(file)
    read = processor(pictures, return_tensors="pt")
    rows = (read["image_grid_thw"].prod(-1) // processor.merge_size**2).tolist()
    text, full = (
        "what is this?" + "".join(BEGIN + IMAGE * each + END for each in several) for several in ([1] * count, rows)
    )
    ids = tokenizer(full, return_tensors="pt")["input_ids"]
    kinds = (ids == model.config.image_token_id).int()
    inputs = {**read, "input_ids": ids, "attention_mask": torch.ones_like(ids), "mm_token_type_ids": kinds}
    with torch.no_grad():
        written = model.generate(**inputs, max_new_tokens=COUNT, do_sample=False, eos_token_id=None)
    job = {"folder": str(folder), "text": text, "pictures": files, "count": COUNT}
    assert run_client("genai", job)["result"] == written[0, ids.shape[1] :].tolist()

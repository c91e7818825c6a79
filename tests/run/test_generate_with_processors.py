"""`generate` with pictures of two sizes: tiles by whole processors, tiles and patches in a row by image processors.

The processors of Qwen2-VL and LLaVA-OneVision need torchvision for videos, so their image processors alone are tried.
"""

import every_part
import numpy as np
import pytest
import torch
from tiny_tokenizers import write_pieces

import onnxfn

TASK, STEPS = "image-text-to-text-with-past", 8
SIDES = ((50, 70), (96, 64))
"""Height and width of each picture."""

pytest.importorskip("PIL", reason="image processors of transformers need pillow")


def pictures(count):
    from PIL import Image

    random = np.random.default_rng(0)
    return [Image.fromarray(random.integers(0, 256, (*side, 3), dtype=np.uint8)) for side in SIDES[:count]]


def by_torch(model, inputs):
    with torch.no_grad():
        return model.generate(**inputs, max_new_tokens=STEPS, do_sample=False, eos_token_id=None)


@pytest.fixture(scope="module")
def idefics3(tmp_path_factory):
    """A model, the folder of its export, and its processor, which is saved there."""
    from transformers import AutoTokenizer, Idefics3Processor
    from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil

    root = tmp_path_factory.mktemp("idefics3")
    model = every_part.tiny_model("idefics3", TASK)
    vision = model.config.vision_config
    write_pieces(root / "tokenizer", last=["<image>"])
    tokenizer = AutoTokenizer.from_pretrained(root / "tokenizer")
    sides = {"size": {"longest_edge": 2 * vision.image_size}, "max_image_size": {"longest_edge": vision.image_size}}
    rows = (vision.image_size // vision.patch_size) ** 2 // model.config.scale_factor**2
    processor = Idefics3Processor(Idefics3ImageProcessorPil(**sides), tokenizer, image_seq_len=rows)
    model.resize_token_embeddings(len(tokenizer))
    model.config.image_token_id = tokenizer.convert_tokens_to_ids("<image>")
    onnxfn.export(onnxfn.spec_for(model, TASK), model, root / "out", check=False)
    processor.save_pretrained(root / "out")
    return model, root / "out", processor


@pytest.fixture(scope="module")
def llava_next(tmp_path_factory):
    """A model, the folder of its export, and its processor, which is saved there."""
    from transformers import AutoTokenizer, LlavaNextProcessor
    from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil

    root = tmp_path_factory.mktemp("llava_next")
    model = every_part.tiny_model("llava_next", TASK)
    config, side = model.config, model.config.vision_config.image_size
    write_pieces(root / "tokenizer", last=["<image>"])
    tokenizer = AutoTokenizer.from_pretrained(root / "tokenizer")
    sides = {"size": {"shortest_edge": side}, "crop_size": {"height": side, "width": side}}
    processor = LlavaNextProcessor(
        LlavaNextImageProcessorPil(**sides, image_grid_pinpoints=config.image_grid_pinpoints),
        tokenizer,
        patch_size=config.vision_config.patch_size,
        vision_feature_select_strategy=config.vision_feature_select_strategy,
        num_additional_image_tokens=1,
    )
    model.resize_token_embeddings(len(tokenizer))
    config.image_token_id = tokenizer.convert_tokens_to_ids("<image>")
    onnxfn.export(onnxfn.spec_for(model, TASK), model, root / "out", check=False)
    processor.save_pretrained(root / "out")
    return model, root / "out", processor


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("model_type", ["idefics3", "llava_next"])
def test_tiles_of_pictures_are_answered_as_by_pytorch(request, model_type, count):
    model, folder, processor = request.getfixturevalue(model_type)
    text = processor.image_token * count + "what is this?"
    inputs = processor(text=[text], images=pictures(count), return_tensors="pt")
    new = by_torch(model, inputs)[0, inputs["input_ids"].shape[1] :]
    ends = np.flatnonzero(np.isin(new, model.generation_config.eos_token_id))
    expected = processor.decode(new[: ends[0]] if len(ends) else new, skip_special_tokens=True)
    assert onnxfn.generate(folder, "what is this?", images=pictures(count), max_new_tokens=STEPS) == expected


@pytest.fixture(scope="module")
def qwen2_vl(tmp_path_factory):
    model, folder = every_part.tiny_model("qwen2_vl", TASK), tmp_path_factory.mktemp("qwen2_vl") / "out"
    onnxfn.export(onnxfn.spec_for(model, TASK), model, folder, check=False)
    return model, folder


@pytest.mark.parametrize("count", [1, 2])
def test_patches_of_pictures_are_continued_as_by_pytorch(qwen2_vl, count):
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    model, folder = qwen2_vl
    config, vision = model.config, model.config.vision_config
    processor = Qwen2VLImageProcessorPil(
        patch_size=vision.patch_size,
        temporal_patch_size=vision.temporal_patch_size,
        merge_size=vision.spatial_merge_size,
        size={"shortest_edge": 16 * 16, "longest_edge": 64 * 64},
    )
    read = processor(pictures(count), return_tensors="pt")
    rows = (read["image_grid_thw"].prod(-1) // vision.spatial_merge_size**2).tolist()
    start, token = config.vision_start_token_id, config.image_token_id
    ids = torch.tensor([[5, 6, *(each for number in rows for each in (start, *[token] * number)), 7, 8]])
    kinds = (ids == token).int()
    inputs = {**read, "input_ids": ids, "attention_mask": torch.ones_like(ids), "mm_token_type_ids": kinds}
    assert len({tuple(grid) for grid in read["image_grid_thw"].tolist()}) == count
    assert onnxfn.generate(folder, inputs, max_new_tokens=STEPS).tolist() == by_torch(model, inputs).tolist()


@pytest.fixture(scope="module")
def llava_onevision(tmp_path_factory):
    model, folder = every_part.tiny_model("llava_onevision", TASK), tmp_path_factory.mktemp("onevision") / "out"
    onnxfn.export(onnxfn.spec_for(model, TASK), model, folder, check=False)
    return model, folder


@pytest.mark.parametrize(
    ("given", "tiles"),
    [(pictures(1), 3), (pictures(2), 3), ([pictures(2)], 1)],
    ids=["a picture", "pictures in tiles", "pictures of one text, whole"],
)
def test_tiles_and_wholes_of_pictures_are_continued_as_by_pytorch(llava_onevision, given, tiles):
    """The processor makes no tiles of several pictures if they are passed as those of one text."""
    from transformers.models.llava_onevision.image_processing_pil_llava_onevision import (
        LlavaOnevisionImageProcessorPil,
    )

    model, folder = llava_onevision
    side, token = model.config.vision_config.image_size, model.config.image_token_id
    processor = LlavaOnevisionImageProcessorPil(
        size={"height": side, "width": side}, image_grid_pinpoints=model.config.image_grid_pinpoints
    )
    read = processor(given, return_tensors="pt")
    assert read["pixel_values"].shape[1] == tiles
    with torch.no_grad():
        rows = [len(each) for each in model.get_image_features(**read).pooler_output]
    ids = torch.tensor([[5, 6, *(each for number in rows for each in (9, *[token] * number)), 7, 8]])
    inputs = {**read, "input_ids": ids, "attention_mask": torch.ones_like(ids)}
    assert onnxfn.generate(folder, inputs, max_new_tokens=STEPS).tolist() == by_torch(model, inputs).tolist()

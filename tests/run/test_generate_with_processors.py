"""`generate` with pictures of two sizes: tiles by whole processors, tiles and patches in a row by image processors."""

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


def idefics3(config, tokenizer):
    from transformers import Idefics3Processor
    from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil

    side, patch = config.vision_config.image_size, config.vision_config.patch_size
    sides = {"size": {"longest_edge": 2 * side}, "max_image_size": {"longest_edge": side}}
    rows = (side // patch) ** 2 // config.scale_factor**2
    return Idefics3Processor(Idefics3ImageProcessorPil(**sides), tokenizer, image_seq_len=rows)


def llava_next(config, tokenizer):
    from transformers import LlavaNextProcessor
    from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil

    side = config.vision_config.image_size
    sides = {"size": {"shortest_edge": side}, "crop_size": {"height": side, "width": side}}
    return LlavaNextProcessor(
        LlavaNextImageProcessorPil(**sides, image_grid_pinpoints=config.image_grid_pinpoints),
        tokenizer,
        patch_size=config.vision_config.patch_size,
        vision_feature_select_strategy=config.vision_feature_select_strategy,
        num_additional_image_tokens=1,
    )


@pytest.fixture(scope="module", params=[idefics3, llava_next], ids=["idefics3", "llava_next"])
def processed(request, tmp_path_factory):
    """A model, the folder of its export, and its processor, which is saved there."""
    from transformers import AutoTokenizer

    root = tmp_path_factory.mktemp("processed")
    model = every_part.tiny_model(request.param.__name__, TASK)
    write_pieces(root / "tokenizer", last=["<image>"])
    tokenizer = AutoTokenizer.from_pretrained(root / "tokenizer")
    processor = request.param(model.config, tokenizer)
    model.resize_token_embeddings(len(tokenizer))
    model.config.image_token_id = tokenizer.convert_tokens_to_ids("<image>")
    onnxfn.export(onnxfn.spec_for(model, TASK), model, root / "out", check=False)
    processor.save_pretrained(root / "out")
    return model, root / "out", processor


def spec_and_model(model_type):
    model = every_part.tiny_model(model_type, TASK)
    return onnxfn.spec_for(model, TASK), model


@pytest.mark.parametrize("count", [1, 2])
def test_tiles_of_pictures_are_answered_as_by_pytorch(processed, count):
    model, folder, processor = processed
    text = processor.image_token * count + "what is this?"
    inputs = processor(text=[text], images=pictures(count), return_tensors="pt")
    new = by_torch(model, inputs)[0, inputs["input_ids"].shape[1] :]
    ends = np.flatnonzero(np.isin(new, model.generation_config.eos_token_id))
    expected = processor.decode(new[: ends[0]] if len(ends) else new, skip_special_tokens=True)
    assert onnxfn.generate(folder, "what is this?", images=pictures(count), max_new_tokens=STEPS) == expected


@pytest.mark.parametrize("count", [1, 2])
def test_patches_of_pictures_are_continued_as_by_pytorch(exports, count):
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    _, model, folder = exports("qwen2_vl")
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


@pytest.mark.parametrize(
    ("given", "tiles"),
    [(pictures(1), 3), (pictures(2), 3), ([pictures(2)], 1)],
    ids=["a picture", "pictures in tiles", "pictures of one text, whole"],
)
def test_tiles_and_wholes_of_pictures_are_continued_as_by_pytorch(exports, given, tiles):
    """The processor makes no tiles of several pictures if they are passed as those of one text."""
    from transformers.models.llava_onevision.image_processing_pil_llava_onevision import LlavaOnevisionImageProcessorPil

    _, model, folder = exports("llava_onevision")
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

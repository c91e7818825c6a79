"""`generate` of a model that sees: what a processor computed, and a text with pictures."""

import json
from types import SimpleNamespace

import every_part
import numpy as np
import pytest
import torch
from refusals import refusal
from tiny_tokenizers import TOKENIZERS

import onnxfn
from onnxfn.run import prompts
from onnxfn.specs.algebra.dummies import dummies
from onnxfn.specs.errors import InvalidSpec, ModelNotFound

TASK, HEARS = "image-text-to-text-with-past", "audio-text-to-text-with-past"
PICTURES, STEPS = 2, 8


@pytest.fixture(scope="module")
def folder(llava, tmp_path_factory):
    folder = tmp_path_factory.mktemp("llava") / "out"
    onnxfn.export(onnxfn.spec_for(llava, TASK), llava, folder, check=False)
    return folder


@pytest.fixture
def inputs(llava):
    config = llava.config
    side = config.vision_config.image_size
    with torch.no_grad():
        rows = len(llava.get_image_features(torch.zeros(1, 3, side, side)).pooler_output[0])
    image = [config.image_token_id] * rows
    ids = np.array([[5, 6, 7, *image, 8, 9], [0, 0, 7, *image, 5, 4]])
    mask = np.ones_like(ids)
    mask[1, :2] = 0
    pixels = np.random.default_rng(0).normal(size=(PICTURES, 3, side, side)).astype(np.float32)
    return {"input_ids": ids, "attention_mask": mask, "pixel_values": pixels}


def by_torch(model, inputs):
    tensors = {name: torch.tensor(array) for name, array in inputs.items()}
    with torch.no_grad():
        return model.generate(**tensors, max_new_tokens=STEPS, do_sample=False, eos_token_id=None).numpy()


def test_what_a_processor_computed_is_continued_as_by_pytorch(llava, folder, inputs):
    assert np.array_equal(onnxfn.generate(folder, inputs, max_new_tokens=STEPS), by_torch(llava, inputs))


def test_tensors_are_taken_like_arrays(folder, inputs):
    tensors = {name: torch.tensor(array) for name, array in inputs.items()}
    expected = onnxfn.generate(folder, inputs, max_new_tokens=2)
    assert np.array_equal(onnxfn.generate(folder, tensors, max_new_tokens=2), expected)


def test_a_text_alone_is_continued_too_and_an_unknown_token_is_refused(llava, folder):
    ids = np.array([[5, 6, 7]])
    given = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    assert np.array_equal(onnxfn.generate(folder, ids, max_new_tokens=STEPS), by_torch(llava, given))
    assert "idx=5000" in refusal(InvalidSpec, onnxfn.generate, folder, [[5, 5000]])


def test_another_number_of_placeholder_tokens_is_refused_with_both_numbers(folder, inputs):
    inputs["input_ids"][0, 3] = 5
    placeholders = int((inputs["input_ids"] == inputs["input_ids"][1, 4]).sum())
    said = refusal(InvalidSpec, onnxfn.generate, folder, inputs)
    assert f"{placeholders + 1} rows of features for {placeholders} placeholder tokens" in said
    said = refusal(InvalidSpec, onnxfn.generate, folder, inputs["input_ids"])
    assert said.startswith(f"0 rows of features for {placeholders} placeholder tokens")


def test_pixels_for_a_model_that_reads_texts_alone_are_refused(llava, folder, inputs, tmp_path):
    onnxfn.export(onnxfn.spec_for(llava, "text-generation-with-past"), llava, tmp_path / "text", check=False)
    said = refusal(InvalidSpec, onnxfn.generate, tmp_path / "text", inputs)
    assert "no file in" in said
    assert "reads pixel_values" in said


def test_images_without_a_text_and_a_text_without_a_saved_processor_are_refused(folder, inputs):
    said = refusal(InvalidSpec, onnxfn.generate, folder, inputs["input_ids"], images=["cat.png"])
    assert "belong to a text" in said
    assert "processor.save_pretrained(folder)" in refusal(ModelNotFound, onnxfn.generate, folder, "what is this?")


@pytest.fixture(scope="module")
def with_processor(tmp_path_factory):
    """A model, the folder of its export, and its processor, which is saved there."""
    pytest.importorskip("PIL", reason="image processors of transformers need pillow")
    from transformers import AutoImageProcessor, AutoTokenizer, LlavaProcessor

    model, folder = every_part.tiny_model("llava", TASK), tmp_path_factory.mktemp("processed") / "out"
    vision, source = model.config.vision_config, tmp_path_factory.mktemp("processor")
    TOKENIZERS["chat"](source)
    tokenizer = AutoTokenizer.from_pretrained(source, extra_special_tokens={"image_token": "<image>"})
    side = {"height": vision.image_size, "width": vision.image_size}
    images = {"image_processor_type": "CLIPImageProcessor", "size": side, "crop_size": side}
    (source / "preprocessor_config.json").write_text(json.dumps(images))
    processor = LlavaProcessor(
        AutoImageProcessor.from_pretrained(source),
        tokenizer,
        patch_size=vision.patch_size,
        vision_feature_select_strategy=model.config.vision_feature_select_strategy,
        num_additional_image_tokens=1,
    )
    model.resize_token_embeddings(len(tokenizer))
    model.config.image_token_id = tokenizer.convert_tokens_to_ids("<image>")
    onnxfn.export(onnxfn.spec_for(model, TASK), model, folder, check=False)
    processor.save_pretrained(folder)
    return model, folder, processor


def picture(seed):
    from PIL import Image

    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (50, 70, 3), dtype=np.uint8))


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_text_with_pictures_is_answered_as_by_pytorch(with_processor, count):
    model, folder, processor = with_processor
    pictures, text = [picture(seed) for seed in range(count)], "what is this?"
    message = [{"role": "user", "content": "<image>" * count + text}]
    prompt = processor.tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
    inputs = processor(text=prompt, return_tensors="pt", images=pictures or None)
    with torch.no_grad():
        texts = model.generate(**inputs, max_new_tokens=STEPS, do_sample=False)
    expected = processor.decode(texts[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    assert onnxfn.generate(folder, text, images=pictures, max_new_tokens=STEPS) == expected


def test_a_picture_may_be_the_path_of_a_file(with_processor, tmp_path):
    _, folder, _ = with_processor
    picture(3).save(tmp_path / "cat.png")
    by_path = onnxfn.generate(folder, "what is this?", images=[tmp_path / "cat.png"])
    assert by_path == onnxfn.generate(folder, "what is this?", images=[picture(3)])
    missing = tmp_path / "dog.png"
    assert str(missing) in refusal(ModelNotFound, onnxfn.generate, folder, "what is this?", images=[missing])


def test_pictures_without_places_in_a_text_are_refused(with_processor):
    _, folder, _ = with_processor
    said = refusal(InvalidSpec, onnxfn.generate, folder, "<image> and what is this?", images=[picture(0), picture(1)])
    assert "2 images" in said
    assert "lists" in refusal(InvalidSpec, onnxfn.generate, folder, "what is this?", images="cat.png")


def test_the_check_reads_pictures_by_the_processor(with_processor):
    model, folder, processor = with_processor
    report = onnxfn.validate(onnxfn.spec_for(model, TASK), model, folder, preprocessor=processor)
    assert report.passed
    cases = [case for case in report.cases if "LlavaProcessor" in case and case.startswith("16")]
    assert cases == [f"16 tokens after {count} by LlavaProcessor" for count in ("1 picture", "2 pictures")]


def test_sounds_of_a_processor_are_answered_as_by_pytorch(tmp_path):
    """The file calls the sound by another name than `forward`, as the clients do."""
    model = every_part.tiny_model("voxtral", HEARS)
    exported = onnxfn.export(onnxfn.spec_for(model, HEARS), model, tmp_path / "out", check=False)
    (input_,) = exported.plan["audio_encoder"].spec.inputs
    sound = dummies(exported.plan["audio_encoder"].spec, {})[input_.name][:1]
    (features,) = exported("audio_encoder", **{input_.name: sound}).values()
    rows = features.reshape(-1, features.shape[-1]).shape[0]
    ids = np.array([[5, 6, *[model.config.audio_token_id] * rows, 7]])
    inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "input_features": sound}
    assert input_.name == "audio_values"
    assert np.array_equal(onnxfn.generate(exported, inputs, max_new_tokens=STEPS), by_torch(model, inputs))


SOUND_TOKENS = {f"{name}_token": f"<|{text}|>" for name, text in (("audio", "AUDIO"), ("audio_bos", "audio_bos"))}


@pytest.fixture(scope="module")
def hearing(tmp_path_factory):
    """A Qwen2-Audio for sounds of two seconds, the folder of its export, and its processor, which is saved there."""
    import shrunk
    from transformers import AutoTokenizer, Qwen2AudioProcessor, WhisperFeatureExtractor

    sizes = {"max_source_positions": 100}
    model = shrunk.model("qwen2_audio", "Qwen2AudioForConditionalGeneration", audio_config=sizes)
    folder, source = tmp_path_factory.mktemp("heard") / "out", tmp_path_factory.mktemp("processor")
    TOKENIZERS["chat"](source)
    tokenizer = AutoTokenizer.from_pretrained(source, extra_special_tokens=SOUND_TOKENS)
    features = WhisperFeatureExtractor(feature_size=model.config.audio_config.num_mel_bins, chunk_length=2)
    processor = Qwen2AudioProcessor(features, tokenizer)
    model.resize_token_embeddings(len(tokenizer))
    model.config.audio_token_id = tokenizer.convert_tokens_to_ids(processor.audio_token)
    onnxfn.export(onnxfn.spec_for(model, HEARS), model, folder, check=False)
    processor.save_pretrained(folder)
    return model, folder, processor


def test_a_text_reaches_a_template_that_reads_only_parts():
    def read(message, **_):
        return "".join(each["text"] for each in message[0]["content"] if isinstance(each, dict))

    assert prompts._prompt(SimpleNamespace(chat_template="x", apply_chat_template=read), "hello", 0, 0) == "hello"


@pytest.mark.parametrize("samples", [(), (9600,), (16000, 24000)])
def test_a_text_with_sounds_is_answered_as_by_pytorch(hearing, samples):
    model, folder, processor = hearing
    sounds = [np.random.default_rng(seed).normal(size=count).astype(np.float32) for seed, count in enumerate(samples)]
    parts = [*[{"type": "audio"}] * len(sounds), {"type": "text", "text": "what is this?"}]
    message = [{"role": "user", "content": parts if sounds else "what is this?"}]
    prompt = processor.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
    inputs = processor(text=[prompt], return_tensors="pt", audio=sounds or None)
    with torch.no_grad():
        texts = model.generate(**inputs, max_new_tokens=STEPS, do_sample=False)
    expected = processor.decode(texts[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    assert ("feature_attention_mask" in inputs) == bool(sounds)
    assert onnxfn.generate(folder, "what is this?", audio=sounds, max_new_tokens=STEPS) == expected


def test_a_decoder_without_a_cache_is_told_from_a_folder_that_is_none(llava, tmp_path, inputs):
    onnxfn.export(onnxfn.spec_for(llava, "image-text-to-text"), llava, tmp_path / "out", check=False)
    assert refusal(ModelNotFound, onnxfn.generate, tmp_path / "out", inputs) == (
        f"{tmp_path / 'out' / 'decoder_model.onnx'} takes no cache, and generate needs decoder_model_merged.onnx; "
        "export with a task that ends in -with-past, such as image-text-to-text-with-past, in merged decoders"
    )

"""Models that see or hear and write, in parts: which of transformers' tables have a spec, and which agree."""

import every_head
import every_part
import pytest
import swept

import onnxfn
from onnxfn.export.find.lookup import checkpoint_task, loader_spec
from onnxfn.export.find.written_tasks import reads_features

PAIRS = every_part.pairs()
SEES, HEARS, BOTH = (f"{each}-with-past" for each in ("image-text-to-text", "audio-text-to-text", "any-to-any"))

SAMPLE = (
    *((name, SEES) for name in ("blip-2", "gemma3", "lfm2_vl", "llava", "llava_next", "mistral3", "paligemma")),
    *((name, SEES) for name in ("qwen3_vl", "smolvlm")),
    *((name, HEARS) for name in ("granite_speech", "qwen2_audio", "vibevoice_asr", "voxtral")),
    *((name, BOTH) for name in ("gemma4", "qwen2_5_omni_thinker")),
)
"""No text alone, marked rows, a hybrid cache, features in a list, padding that is left out, an image of any size,
prompts that are read both ways, DeepStack, tiles; sounds: in blocks, with features that `forward` computes, as waves
without noise, and of one length; two towers with inputs of layers, and two that pack images and sounds."""


def planned(model_type, task):
    model = every_part.tiny_model(model_type, task)
    return onnxfn.plan(onnxfn.spec_for(model, task), model)


@pytest.mark.parametrize(("model_type", "task"), SAMPLE)
def test_each_part_agrees_with_pytorch(model_type, task, tmp_path):
    every_part.exported(every_part.tiny_model(model_type, task), task, tmp_path / "out")


@pytest.mark.sweep
@pytest.mark.parametrize(("model_type", "task"), PAIRS)
def test_every_model_in_parts_is_recorded(model_type, task, tmp_path, only_left, record):
    only_left(every_part.NAME, model_type, task)
    before = swept.seen(every_part.NAME).get(model_type, {}).get(task)
    line = every_part.line(model_type, task, tmp_path / "out")
    record(every_part.NAME, model_type, task, line, set(PAIRS))
    agreed = before is not None and not before.startswith(swept.NOT)
    assert not (agreed and line.startswith(swept.NOT)), line


@pytest.mark.parametrize(
    ("model_type", "task", "loader", "files"),
    [
        ("audioflamingo3", HEARS, "AutoModelForSeq2SeqLM", "audio_encoder embed_tokens decoder_model"),
        ("qwen2_audio", HEARS, "AutoModelForMultimodalLM", "audio_encoder embed_tokens decoder_model"),
        ("voxtral", HEARS, "AutoModelForMultimodalLM", "audio_encoder embed_tokens decoder_model"),
        ("gemma4", BOTH, "AutoModelForMultimodalLM", "vision_encoder audio_encoder embed_tokens decoder_model_merged"),
    ],
)
def test_a_model_that_hears_is_exported_in_parts_by_default_with_both_towers_if_it_sees(
    model_type, task, loader, files
):
    model = every_part.tiny_model(model_type, task)
    config = model.config
    config.architectures = [type(model).__name__]
    assert checkpoint_task(model) == checkpoint_task(config) == task
    assert loader_spec(config, task).call.loader == loader
    plan = onnxfn.plan(onnxfn.spec_for(model, task if task == BOTH else None), model)
    assert plan.files == tuple(f"{name}.onnx" for name in files.split())


def test_a_model_that_sees_is_exported_in_parts_by_default():
    model = every_part.tiny_model("llava", SEES)
    assert checkpoint_task(model) == SEES
    assert onnxfn.plan(onnxfn.spec_for(model, SEES), model).files == (
        *("vision_encoder.onnx", "embed_tokens.onnx", "decoder_model_merged.onnx"),
    )


def test_a_checkpoint_without_the_tower_for_sounds_is_one_that_sees():
    model = every_part.tiny_model("gemma4", SEES)
    model.config.audio_config = None
    assert checkpoint_task(model) == SEES
    files = [onnxfn.plan(onnxfn.spec_for(model, task), model).files for task in (BOTH, SEES)]
    assert files[0] == files[1]


def test_features_of_a_model_that_reads_images_are_of_images_and_texts():
    model = every_head.tiny_model("llava", "feature-extraction")
    plan = onnxfn.plan(onnxfn.spec_for(model), model)
    assert plan.files == ("vision_encoder.onnx", "embed_tokens.onnx", "model.onnx")
    assert [*plan["model"].outputs] == ["last_hidden_state"]
    assert {*plan.modalities} == {"image", "text"}
    assert onnxfn.spec_for(model.config, "feature-extraction").derived == "LlavaModel in parts"


@pytest.mark.parametrize("model_type", ["clip", "qwen3", "t5gemma2", "whisper"])
def test_other_models_have_no_parts_for_features(model_type):
    """Without placeholder tokens, or with an encoder that takes the tokens, features are those of one graph."""
    model = every_head.tiny_model(model_type, "feature-extraction")
    assert not reads_features(model, "feature-extraction")
    assert not reads_features(model.config, "feature-extraction")


def test_a_model_without_a_cache_has_a_decoder_of_another_name():
    model = every_part.tiny_model("llava", SEES)
    plan = onnxfn.plan(onnxfn.spec_for(model, "image-text-to-text"), model)
    assert list(plan["decoder_model"].inputs) == ["inputs_embeds", "attention_mask", "position_ids"]


def test_a_checkpoint_without_a_class_for_its_text_half_is_loaded_whole():
    config = every_part.tiny_model("llava", SEES).config
    assert loader_spec(config, "text-generation-with-past").call.loader == "AutoModelForImageTextToText"
    assert loader_spec(config, SEES).call.loader == "AutoModelForImageTextToText"


def test_the_text_half_is_one_graph_that_says_what_it_leaves_out():
    model = every_part.tiny_model("qwen2_vl", SEES)
    assert onnxfn.plan(onnxfn.spec_for(model, "text-generation-with-past"), model).files == ("model.onnx",)


@pytest.mark.parametrize(
    ("model_type", "names"),
    [
        ("audioflamingo3", ("input_features", "input_features_mask")),
        ("inkling_mm_model", ("audio_input_ids", "audio_input_ids_mask")),
        ("qwen3_asr", ("input_features", "input_features_mask")),
        ("vibevoice_asr", ("input_values", "padding_mask")),
    ],
)
def test_a_tower_that_hears_takes_what_a_processor_gives(model_type, names):
    """The towers of other models are in golden_parts.json."""
    plan = planned(model_type, HEARS)
    assert [part.name for part in plan] == ["audio_encoder", "embed_tokens", "decoder_model_merged"]
    assert tuple(plan["audio_encoder"].inputs) == names
    assert list(plan["audio_encoder"].outputs) == ["audio_features"]


def test_an_audio_encoder_that_groups_frames_takes_a_spectrogram_of_whole_groups():
    model = every_head.tiny_model("nemo_speechlm", "text2text-generation")
    encoder = onnxfn.plan(onnxfn.spec_for(model, "text2text-generation"), model)["audio_encoder"]
    frames = f"{model.config.audio_config.subsampling_factor} * num_groups"
    assert encoder.inputs["input_features"] == {0: "num_sounds", 1: frames}
    assert encoder.inputs["input_features_mask"] == {0: "num_sounds", 1: frames}


def test_a_cache_has_the_keys_of_an_index():
    decoder = planned("mistral_large4", SEES)["decoder_model_merged"]
    assert decoder.inputs["past_key_values.0.indexer_key"] == {0: "batch_size", 1: "past_sequence_length"}
    assert decoder.outputs["present.0.indexer_key"] == {0: "batch_size", 1: "past_sequence_length + sequence_length"}

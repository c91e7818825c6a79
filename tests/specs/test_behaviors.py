import pytest
from refusals import refusal

from onnxfn import ARCHITECTURES, ExportSpec, InvalidSpec, UnknownName, text_seq2seq
from onnxfn.specs.algebra.compose import compose
from onnxfn.specs.algebra.facts import takes
from onnxfn.specs.edits.behaviors import BEHAVIORS, behaves, extra_file, model_part, split, with_behavior
from onnxfn.specs.edits.caches import cross_cache
from onnxfn.specs.plan.planning import outputs, plan
from onnxfn.specs.tasks.tasks import for_task

CONFIG = {"vocab_size": 50, "d_model": 32, "hidden_size": 32, "decoder_layers": 2, "decoder_attention_heads": 4}
BART = for_task(ARCHITECTURES["bart"], "text2text-generation-with-past")
BERT = ARCHITECTURES["bert"]
LAYERS, KINDS = range(2), ("key", "value")


def cache(start, *sides):
    return [f"{start}.{layer}.{side}.{kind}" for layer in LAYERS for side in sides for kind in KINDS]


def part(spec, **asked):
    (made,) = plan(spec, CONFIG, **asked).parts
    return made


ENCODED = ["encoder_hidden_states", "encoder_attention_mask", "input_ids"]
TEXTS = ["input_ids", "attention_mask", "decoder_input_ids"]
PAST = cache("past_key_values", "decoder", "encoder")
OWN, BOTH = cache("present", "decoder"), cache("present", "decoder", "encoder")


@pytest.mark.parametrize(
    ("behavior", "past", "name", "inputs", "outputs"),
    [
        ("encoder", None, "encoder_model", TEXTS[:2], ["last_hidden_state"]),
        ("decoder", None, "decoder_model", ENCODED, ["logits"]),
        ("decoder", "outputs", "decoder_model", ENCODED, ["logits", *BOTH]),
        ("decoder", "both", "decoder_with_past_model", [*ENCODED, *PAST], ["logits", *OWN]),
        ("monolith", None, "model", TEXTS, ["logits"]),
        ("monolith", "outputs", "model", TEXTS, ["logits", *OWN]),
        ("monolith", "both", "model", [*TEXTS, *PAST], ["logits", *OWN]),
    ],
)
def test_a_view_has_a_file_inputs_and_outputs(behavior, past, name, inputs, outputs):
    made = part(with_behavior(BART, behavior, past=past) if past else with_behavior(BART, behavior))
    assert (made.name, list(made.inputs), list(made.outputs)) == (name, inputs, outputs)


# Files


def test_one_merged_decoder_replaces_two_unless_they_are_asked_for():
    assert plan(BART, CONFIG).files == ("encoder_model.onnx", "decoder_model_merged.onnx")
    apart = ("encoder_model.onnx", "decoder_model.onnx", "decoder_with_past_model.onnx")
    assert plan(BART, CONFIG, decoders="separate").files == apart
    assert plan(BART, CONFIG, decoders="both").files == (*apart, "decoder_model_merged.onnx")


def test_a_merged_decoder_has_a_filler_for_its_empty_inputs():
    merged = plan(BART, CONFIG).parts[1]
    (filler,) = merged.filler
    assert list(filler.outputs) == cache("present", "encoder")
    assert set(filler.inputs) <= set(merged.inputs)
    assert list(merged.outputs) == ["logits", *cache("present", "decoder", "encoder")]


def test_a_merged_decoder_is_checked_with_and_without_a_past():
    emptied = {one.name: [made.name for made in one.inputs] for one in plan(BART, CONFIG).parts[1].spec.cases}
    prompts = [emptied.pop(name) for name in ("prompt", "prompts", "long text")]
    assert prompts == [cache("past_key_values", "encoder")] * 3
    assert set(map(tuple, emptied.values())) == {()}


# Refusals


@pytest.mark.parametrize(
    ("error", "spec", "behavior", "past", "words"),
    [
        (UnknownName, BART, "decodr", {}, "known: monolith, decoder, encoder; did you mean 'decoder'?"),
        (InvalidSpec, BERT, "decodr", {}, "no behavior 'decodr'; an encoder-decoder has: monolith, encoder, decoder"),
        (InvalidSpec, BERT, "decoder", {}, "bert is not an encoder-decoder (or one of its parts already)"),
        (InvalidSpec, with_behavior(BART, "decoder"), "encoder", {}, "one of its parts already"),
        (InvalidSpec, ARCHITECTURES["bart"], "encoder", {}, "before its behavior: for_task(spec, task)"),
        (InvalidSpec, BART, "encoder", {"past": "outputs"}, "it has no past: leave out past='outputs'"),
        (UnknownName, BART, "decoder", {"past": "inputs"}, "known: outputs, both; did you mean 'outputs'?"),
    ],
)
def test_a_behavior_that_a_spec_cannot_have_is_refused(error, spec, behavior, past, words):
    assert words in refusal(error, with_behavior, spec, behavior, **past)


def test_an_unknown_name_of_a_behavior_is_refused():
    assert "known: monolith, encoder, decoder" in refusal(UnknownName, behaves, "decodr")


@pytest.mark.parametrize(("model_type", "task"), [("bert", "fill-mask-with-past"), ("whisper", "text-generation")])
def test_a_task_with_past_of_a_model_without_a_cache_is_refused(model_type, task):
    expected = f"no task {task!r} for this spec of {model_type}"
    assert expected in refusal(UnknownName, for_task, ARCHITECTURES[model_type], task)


# What a spec of one's own needs


def test_any_spec_can_have_behaviors():
    own_cache = cross_cache(heads="own_heads", key="own_size", value="own_size")
    own = compose(text_seq2seq, behaves("decoder", own_cache), ExportSpec())
    spec = with_behavior(for_task(own, "text2text-generation"), "decoder", past="outputs")
    config = CONFIG | {"own_heads": 2, "own_size": 5, "decoder_num_layers": 1}
    assert "present.1.encoder.value" in outputs(spec, config)
    assert set(BEHAVIORS) == {one.name for one in own.parts.behaviors}


def test_a_part_with_its_own_name_is_a_behavior():
    vocoder = model_part("vocoder", takes("spectrogram", "frames 80", "noise", kind="float"))
    mute = compose(vocoder, extra_file("speaks", "vocoder"))
    assert [one.name for one in mute.parts.files] == ["speaks"]
    view = with_behavior(mute, "vocoder")
    assert [one.name for one in view.inputs] == ["spectrogram"]
    assert [one.name for one in view.parts.files] == ["vocoder"]
    assert "known: vocoder" in refusal(UnknownName, with_behavior, mute, "decoder")


def test_a_cache_has_the_batch_and_output_length_that_are_given():
    kept = cross_cache(heads="heads", key="size", value="size", batch="1", output_length="frames")
    own, cross = kept.cache.rows[0], kept.cache.rows[2]
    assert [one.symbol for one in own.input_axes.axes] == ["1", "heads", "past_decoder_sequence_length", "size"]
    assert [one.symbol for one in own.output_axes.axes] == ["1", "heads", "frames", "size"]
    assert cross.output_axes == cross.input_axes


# A file for each part

PAIR = {"text_config": {"vocab_size": 99, "eos_token_id": 98}, "vision_config": {"image_size": 32}}
CLIP = for_task(ARCHITECTURES["clip"], "feature-extraction")


def test_a_model_of_two_parts_is_one_file_until_it_is_split():
    whole, (seeing, reading) = plan(CLIP, PAIR), plan(split(CLIP), PAIR).parts
    assert whole.files == ("model.onnx",)
    assert list(whole.parts[0].outputs) == ["logits_per_image", "logits_per_text", "text_embeds", "image_embeds"]
    assert (seeing.name, seeing.outputs) == ("vision_model", {"image_embeds": {0: "batch_size"}})
    assert (reading.name, reading.outputs) == ("text_model", {"text_embeds": {0: "text_batch_size"}})
    assert list(seeing.inputs) == ["pixel_values"]
    assert list(reading.inputs) == ["input_ids", "attention_mask"]


def test_one_part_can_be_chosen():
    assert plan(split(CLIP, "text_model"), PAIR).files == ("text_model.onnx",)
    assert plan(with_behavior(CLIP, "text_model"), PAIR).parts == plan(split(CLIP, "text_model"), PAIR).parts
    assert plan(split(BART, "encoder"), CONFIG).files == ("encoder_model.onnx",)


def test_an_encoder_decoder_is_split_into_encoder_and_decoder():
    assert plan(split(BART), CONFIG).files == ("decoder_model.onnx", "encoder_model.onnx")


def test_a_spec_of_one_part_cannot_be_split():
    assert "for clip; known: vision_model, text_model" in refusal(UnknownName, split, CLIP, "text")
    assert refusal(InvalidSpec, split, for_task(BERT, "fill-mask")) == "bert has one part, so it cannot be split"
    assert "choose the task" in refusal(InvalidSpec, split, ARCHITECTURES["clip"])

import pytest

import onnxfn
from onnxfn import Plan, plan, spec_for, with_input
from onnxfn.specs.edits.optional_inputs import OPTIONAL_INPUTS, can_take
from onnxfn.specs.plan.real_inputs import left_out
from onnxfn.specs.results.output_types import MAIN_INPUTS, MODALITY_OF, OTHER_INPUTS, modalities

WAVES = spec_for("wav2vec2", "audio-classification")
CONVOLUTIONS = {"conv_kernel": [10, 3], "conv_stride": [5, 2], "add_adapter": False}
BERT = spec_for("bert", "fill-mask")
BERT_CONFIG = {"vocab_size": 50, "type_vocab_size": 2}


def omitted(spec, config, parameters, processed=None):
    names = tuple(parameters.split())
    return left_out(spec, plan(spec, config), names, names if processed is None else processed.split())


def test_a_mask_that_the_row_leaves_out_is_named_with_the_edit_that_takes_it():
    (line,) = omitted(WAVES, CONVOLUTIONS, "input_values attention_mask labels", "input_values attention_mask")
    edit = 'with_input(spec, "attention_mask")'
    assert line == onnxfn.LeftOut("attention_mask", "the spec of wav2vec2 has no such input", edit)
    assert str(line) == f"attention_mask is left out: the spec of wav2vec2 has no such input; {edit} takes it"


def test_the_edit_takes_it_and_the_line_goes():
    spec = with_input(WAVES, "attention_mask")
    assert omitted(spec, CONVOLUTIONS, "input_values attention_mask") == ()
    assert plan(spec, CONVOLUTIONS).parts[0].inputs == {
        "input_values": {0: "batch_size", 1: "sequence_length"},
        "attention_mask": {0: "batch_size", 1: "sequence_length"},
    }


def test_what_no_processor_gives_is_not_named():
    assert omitted(BERT, BERT_CONFIG, "input_ids attention_mask token_type_ids position_ids", "input_ids") == ()


def test_a_constant_is_not_left_out_and_a_removed_input_is():
    parameters = "input_ids attention_mask token_type_ids"
    assert omitted(onnxfn.with_constants(BERT, token_type_ids=0), BERT_CONFIG, parameters) == ()
    (line,) = omitted(onnxfn.without(BERT, "token_type_ids"), BERT_CONFIG, parameters)
    assert str(line).startswith("token_type_ids is left out: the spec of bert has no such input")


def test_a_condition_that_the_configuration_does_not_set_is_the_reason():
    spec = onnxfn.compose(BERT, onnxfn.takes("bbox", "batch_size sequence_length 4", "boxes", when="has_boxes"))
    (line,) = omitted(spec, {**BERT_CONFIG, "has_boxes": False}, "input_ids bbox")
    assert line == onnxfn.LeftOut("bbox", "the configuration does not set has_boxes")


def test_a_modality_without_a_graph_is_named_with_all_that_belongs_to_it():
    lines = omitted(BERT, BERT_CONFIG, "input_ids pixel_values image_sizes input_features")
    assert [str(line).partition("; to try")[0] for line in lines] == [
        "pixel_values is left out: the plan has no images",
        "image_sizes is left out: the plan has no images",
        "input_features is left out: the plan has no sounds",
    ]
    advice = "; to try, derive a spec from a sample: derived(model, sample={'pixel_values': tensor, ...})"
    assert str(lines[0]).endswith(advice)
    planned = Plan(plan(BERT, BERT_CONFIG).parts, lines)
    assert planned.modalities == ("text",)
    assert "modalities\n    text\n  left out\n    pixel_values is left out" in str(planned)
    assert "the plan has no sounds" in str(planned)
    assert onnxfn.from_json(onnxfn.to_json(planned), record=Plan) == planned


def test_a_model_with_one_modality_prints_no_modalities():
    assert "modalities" not in str(plan(BERT, BERT_CONFIG))


def test_a_decoder_alone_leaves_nothing_out():
    t5 = onnxfn.with_behavior(spec_for("t5", "text2text-generation"), "decoder")
    config = {"vocab_size": 50, "d_model": 8, "num_decoder_layers": 1, "num_layers": 1, "num_heads": 1, "d_kv": 4}
    assert omitted(t5, config, "input_ids pixel_values") == ()


def test_the_parts_of_a_plan_count_together():
    clip = onnxfn.split(spec_for("clip", "feature-extraction"))
    config = {"vision_config": {"image_size": 32}, "text_config": {"vocab_size": 50, "eos_token_id": 49}}
    assert omitted(clip, config, "input_ids attention_mask pixel_values") == ()
    assert plan(clip, config).modalities == ("text", "image")


@pytest.mark.parametrize(
    ("model_type", "task", "name", "axes"),
    [
        ("wav2vec2", "feature-extraction", "attention_mask", "[batch_size, sequence_length]"),
        ("siglip", "feature-extraction", "attention_mask", "[text_batch_size, sequence_length]"),
        ("detr", "object-detection", "pixel_mask", "[batch_size, height, width]"),
        ("roberta", "fill-mask", "token_type_ids", "[batch_size, sequence_length]"),
    ],
)
def test_an_input_has_the_axes_of_the_one_that_it_belongs_to(model_type, task, name, axes):
    spec = spec_for(model_type, task)
    assert str(with_input(spec, name)[name].axes) == axes
    assert with_input(name)(spec) == with_input(spec, name) == with_input(with_input(spec, name), name)


def test_an_encoder_mask_is_not_added_to_a_decoder_that_would_ignore_it():
    spec = onnxfn.without(spec_for("t5", "text2text-generation"), "attention_mask")
    assert not any(can_take(spec, name) for name in OPTIONAL_INPUTS)


def test_each_argument_has_one_modality():
    names = [name for table in (MAIN_INPUTS, OTHER_INPUTS) for several in table.values() for name in several]
    assert len({*names}) == len(names) == len(MODALITY_OF)
    assert modalities(()) == ()

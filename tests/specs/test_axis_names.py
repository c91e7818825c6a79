import pytest
from refusals import refusal

import onnxfn
from onnxfn import InvalidSpec, UnknownName, compose, for_task, plan, sized, with_axis_names, with_shapes
from onnxfn.specs.axis_symbols import symbols_in, traced_sizes, with_symbols
from onnxfn.specs.plan.check_cases import cases, in_case
from onnxfn.specs.plan.planning import dummy_inputs, inputs, outputs

BERT = for_task(compose(onnxfn.text_encoder, onnxfn.bert_inputs), "text-classification")
CONFIG = {"vocab_size": 50, "type_vocab_size": 2}
LLAMA = {"num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 8, "vocab_size": 9}
T5 = LLAMA | {"num_layers": 1, "num_decoder_layers": 1, "num_heads": 2, "d_kv": 4, "d_model": 8}
NEW = {"batch_size": "N", "sequence_length": "T", "past_sequence_length": "P"}


def planned(spec, config=CONFIG):
    return plan(spec, config).parts[0].spec


def case_sizes(spec, config=CONFIG):
    part = planned(spec, config)
    return [traced_sizes(in_case(part, case)) for case in cases(part)]


def test_an_axis_has_its_new_name_in_every_tensor_and_keeps_the_sizes_of_the_check():
    renamed = with_axis_names(BERT, batch_size="N", sequence_length="T")
    assert inputs(renamed) == {key: {0: "N", 1: "T"} for key in ("input_ids", "attention_mask", "token_type_ids")}
    assert outputs(renamed) == {"logits": {0: "N"}}
    assert planned(renamed).batch == "N"
    assert case_sizes(renamed) == [{"N": own["batch_size"], "T": own["sequence_length"]} for own in case_sizes(BERT)]
    assert len({own["T"] for own in case_sizes(renamed)}) > 2


@pytest.mark.parametrize(
    ("model_type", "task", "config"),
    [("llama", "text-generation-with-past", LLAMA), ("t5", "text2text-generation-with-past", T5)],
)
def test_new_names_reach_caches_parts_and_cases(model_type, task, config):
    before = onnxfn.spec_for(model_type)
    names = [name for name in NEW if name in {*symbols_in(before)}] or ["batch_size"]
    new = {name: NEW[name] for name in names}
    chosen_later = plan(for_task(with_axis_names(before, **new), task), config)
    assert chosen_later == plan(with_axis_names(for_task(before, task), **new), config)
    back = with_symbols(chosen_later, {value: name for name, value in new.items()}).parts
    for part, own in zip(back, plan(for_task(before, task), config).parts, strict=True):
        assert (part.inputs, part.outputs, part.spec.cases) == (own.inputs, own.outputs, own.spec.cases)
    assert not {*new} & {*symbols_in(chosen_later)}


def test_later_edits_may_use_the_new_names():
    renamed = with_axis_names(BERT, batch_size="N", sequence_length="T")
    edited = compose(with_shapes(renamed, N=1), sized(T=33))
    assert inputs(edited)["input_ids"] == {1: "T"}
    assert dummy_inputs(edited, CONFIG, "np")["input_ids"].shape == (1, 33)
    assert inputs(with_axis_names(renamed, T="L"))["input_ids"] == {0: "N", 1: "L"}
    assert with_axis_names(renamed, N="batch_size", T="sequence_length") == BERT


def test_sizes_of_the_trace_and_of_the_check_are_in_the_range():
    spec = with_shapes(BERT, sequence_length=(8, 12))
    assert inputs(spec)["input_ids"] == {0: "batch_size", 1: "sequence_length"}
    traced = traced_sizes(planned(spec))["sequence_length"]
    sizes = {own["sequence_length"] for own in case_sizes(spec)}
    assert traced == 12
    assert min(sizes) == 8
    assert max(sizes) == 12
    assert "'sequence_length' is 8 to 12" in refusal(InvalidSpec, dummy_inputs, spec, CONFIG, "np", sequence_length=13)


def test_the_last_shape_of_an_axis_counts():
    ranged = with_shapes(BERT, sequence_length=(8, 12))
    assert with_shapes(ranged, sequence_length=9) == with_shapes(BERT, sequence_length=9)
    assert with_shapes(with_shapes(BERT, sequence_length=9), sequence_length=(8, 12)) == ranged
    assert "no axis 'length'" in refusal(UnknownName, plan, with_shapes(BERT, length=(1, 8)), CONFIG)

"""The families of text models: inputs, tasks, dummy inputs, and the cases of the check."""

from importlib import import_module

import pytest

from onnxfn import bert_inputs, text_encoder
from onnxfn.architectures import ARCHITECTURES, seq2seq
from onnxfn.specs.algebra.compose import compose
from onnxfn.specs.algebra.dummies import dummies, sized
from onnxfn.specs.plan.check_cases import in_case
from onnxfn.specs.plan.planning import resolved
from onnxfn.specs.tasks.tasks import for_task, task_names

CONFIG = {"vocab_size": 50, "type_vocab_size": 3}
BERT = compose(text_encoder, bert_inputs)


def dummies_of_cases(spec):
    planned = resolved(spec, CONFIG)
    return {case_.name: dummies(in_case(planned, case_), {}) for case_ in planned.cases}


@pytest.mark.parametrize("task", task_names(BERT))
def test_no_case_repeats_a_size_of_the_trace_or_of_another_case(task):
    spec = for_task(BERT, task)
    shapes = [dummies(resolved(spec, CONFIG), {})["input_ids"].shape]
    shapes += [arrays["input_ids"].shape for arrays in dummies_of_cases(spec).values()]
    assert len(set(shapes)) == 5
    _, *choices, lengths = (len(set(sizes)) for sizes in zip(*shapes, strict=True))
    assert lengths == 5
    assert {*choices} <= {4}  # the long text has the other sizes of the case `one`


@pytest.mark.parametrize("task", task_names(BERT))
def test_the_cases_have_no_padding_padding_on_both_sides_and_holes(task):
    masks = {name: arrays["attention_mask"] for name, arrays in dummies_of_cases(for_task(BERT, task)).items()}
    assert masks["one"].min() == masks["long text"].min() == 1
    single, left, holes = masks["special tokens"].reshape(-1, masks["special tokens"].shape[-1])[:3].tolist()
    assert (single[0], sum(single), left[0], left[-1], holes[0], holes[-1]) == (1, 1, 0, 1, 1, 1)
    assert 0 in holes
    assert (masks["left-padded"][..., 0].min(), masks["left-padded"][..., -1].min()) == (0, 1)


def test_token_and_segment_ids_are_below_their_vocabulary_sizes():
    arrays = dummies(resolved(compose(BERT, sized(sequence_length=400)), CONFIG), {})
    assert set(arrays["input_ids"].ravel().tolist()) == set(range(50))
    assert set(arrays["token_type_ids"].ravel().tolist()) == {0, 1, 2}


def test_a_model_type_has_one_row():
    """The rows of encoder-decoders lie in two tables, which `seq2seq.ROWS` joins."""

    def rows(*tables):
        return [item for table in tables for item in import_module(f"onnxfn.architectures.{table}").ROWS.items()]

    every = rows("text", "decoders", "seq2seq", "vision", "detection", "multimodal", "audio", "series", "libraries")
    assert len(ARCHITECTURES) == len(every)
    joined = rows("speech")
    assert len({name for name, _ in joined}) == len(joined)
    assert all(seq2seq.ROWS[name] is row for name, row in joined)

from functools import partial

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal
from strategies import weight_rules

from onnxfn.specs.algebra.compose import EMPTY, compose
from onnxfn.specs.algebra.quantized_dtypes import QUANTIZED_DTYPES, QuantizedName
from onnxfn.specs.algebra.spec import ExportSpec, Target
from onnxfn.specs.edits.tensors import with_dtypes
from onnxfn.specs.edits.weights import quantize
from onnxfn.specs.errors import InvalidSpec, UnknownName, WrongType
from onnxfn.specs.quantization import MATRICES, WeightRule, is_selected, rule_for

weights = st.tuples(
    st.lists(st.sampled_from(("lm_head.weight", "layers.0.mlp.up.weight", "embed.weight")), min_size=1),
    st.lists(st.sampled_from(("MatMul", "Gather", "Conv"))),
)


@given(st.lists(weight_rules), weights)
def test_the_last_rule_that_selects_a_weight_wins(rules, weight):
    selecting = [rule for rule in rules if is_selected(rule, *weight)]
    last = selecting[-1] if selecting else None
    assert rule_for(rules, *weight) == (None if last is None or last.kind == "as is" else last)


@given(st.lists(weight_rules, max_size=4), st.lists(weight_rules, max_size=4), weights)
def test_rules_of_the_right_spec_come_after_those_of_the_left(left, right, weight):
    joined = compose(_spec(left), _spec(right)).target.quantization
    assert set(joined) == {*left, *right}
    assert rule_for(joined, *weight) == rule_for([*left, *right], *weight)


@given(weight_rules, weights)
def test_a_rule_without_operators_selects_by_the_name_alone(rule, weight):
    by_name, by_operator = evolve(rule, read_by=()), evolve(rule, where="*")
    assert is_selected(rule, *weight) == (is_selected(by_name, *weight) and is_selected(by_operator, *weight))


def test_a_tied_weight_is_selected_by_each_of_its_names_and_operators():
    tied = (["model.embed_tokens.weight", "lm_head.weight"], ["Gather", "MatMul"])
    assert is_selected(WeightRule("*lm_head*"), *tied)
    assert is_selected(WeightRule(read_by=["Gather"]), *tied)
    assert is_selected(WeightRule("*embed*", read_by=["MatMul"]), *tied)
    assert not is_selected(WeightRule(read_by=["Conv"]), *tied)


def test_without_a_name_matrices_and_tables_are_quantized():
    assert quantize(EMPTY).target.quantization == (WeightRule(read_by=MATRICES),)
    assert quantize(EMPTY, where="*").target.quantization == (WeightRule(),)
    assert quantize(EMPTY, read_by=["MatMul"]).target.quantization == (WeightRule(read_by=["MatMul"]),)


def test_a_quantized_dtype_adds_its_rules_and_its_float_dtype():
    spec = with_dtypes(with_dtypes(EMPTY, float="q4"), float="q8")
    assert spec.target.float_dtype == "float32"
    assert spec.target.quantization == (*QUANTIZED_DTYPES["q4"].rules, *QUANTIZED_DTYPES["q8"].rules)
    assert with_dtypes(quantize(EMPTY), float="float16").target == with_dtypes(EMPTY, float="q4f16").target


def test_every_quantized_dtype_has_a_row():
    assert {*QUANTIZED_DTYPES} == {*QuantizedName.__args__}


REFUSED = (
    ({"bits": 3}, InvalidSpec, "ONNX Runtime has no kernel for 'blocks' weights of 3 bits; possible: 2, 4, 8"),
    ({"bits": 4, "kind": "dynamic"}, InvalidSpec, "ONNX Runtime has no kernel for 'dynamic' weights of 4 bits; pos"),
    ({"block_size": 48}, InvalidSpec, "block_size is 48; possible: powers of two from 16"),
    ({"kind": "block"}, UnknownName, "no kind 'block'; known: blocks, dynamic, static, nf4, as is"),
    ({"accuracy_level": 5}, InvalidSpec, "accuracy_level is 5; possible: 0 to 4"),
)


@pytest.mark.parametrize(("arguments", "error", "message"), REFUSED)
def test_a_rule_that_no_kernel_has_is_refused(arguments, error, message):
    assert message in refusal(error, partial(WeightRule, **arguments))
    assert message in refusal(error, partial(quantize, EMPTY, **arguments))


def test_what_is_no_pattern_and_no_rule_is_refused():
    assert "where of WeightRule is 7, of the type int; it must be str" in refusal(WrongType, WeightRule, 7)
    message = refusal(WrongType, Target, quantization=["q4"])
    assert "quantization of Target has the item 'q4', of the type str; it must be WeightRule" in message
    assert "read_by of WeightRule" in refusal(WrongType, WeightRule, read_by=["Matmul"])


def _spec(rules):
    return ExportSpec(target=Target(quantization=rules))

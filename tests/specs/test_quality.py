import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from onnxfn.specs.algebra.planned import Part, Plan, PlannedSpec
from onnxfn.specs.algebra.quantized_dtypes import QUANTIZED_DTYPES, quality_remarks
from onnxfn.specs.algebra.spec import Target
from onnxfn.specs.results.measurements import QUALITY, WORDS, Measurement, quality
from onnxfn.specs.stored.reports import Report

KL = Measurement("model", "logits", "kl", 0.4, 0.8, "300 tokens of text", True)
values = st.floats(-2, 2)


@given(st.sampled_from(sorted(QUALITY)), values, values)
def test_a_better_value_has_no_worse_word(measure, left, right):
    worse, better = sorted((left, right), reverse=QUALITY[measure][0] < QUALITY[measure][1])
    words = [quality([evolve(KL, measure=measure, value=each)]) for each in (better, worse)]
    assert WORDS.index(words[0]) <= WORDS.index(words[1])


@given(st.lists(st.tuples(st.sampled_from(sorted(QUALITY)), values), min_size=1))
def test_the_word_of_a_file_is_that_of_its_worst_measure(pairs):
    measured = [evolve(KL, measure=measure, value=value) for measure, value in pairs]
    assert quality(measured) == max((quality([each]) for each in measured), key=WORDS.index)


def test_a_value_that_is_no_number_is_poor_and_measures_of_faults_have_no_word():
    assert quality([evolve(KL, value=float("nan"))]) == "poor"
    assert quality([evolve(KL, measure="weights"), evolve(KL, floor=None)]) == ""


def plan_of(dtype):
    row = QUANTIZED_DTYPES[dtype]
    return Plan([Part("model", PlannedSpec(target=Target(float_dtype=row.float_dtype, quantization=row.rules)))])


@pytest.mark.parametrize("dtype", QUANTIZED_DTYPES)
def test_a_poor_file_has_a_remark_that_names_the_measure_and_a_better_dtype(dtype):
    *slow, remark = quality_remarks(plan_of(dtype), [KL, evolve(KL, measure="agreement", value=0.8)])
    better = QUANTIZED_DTYPES[dtype].better
    assert slow == [line for line in [QUANTIZED_DTYPES[dtype].slow] if line]
    assert bool(slow) == (dtype == "bnb4")
    assert better in (*QUANTIZED_DTYPES, None)
    needs = " (with the tokenizer)" if better and better.startswith("q4c") else ""
    advice = f"{better} is mostly better at about the same size{needs}" if better else "q8 is better, and larger"
    assert remark == f"model.onnx is poor (kl 0.4): {advice}"
    assert quality_remarks(plan_of(dtype), [evolve(KL, value=0.2)]) == slow


def test_a_report_says_the_quality_of_its_worst_file():
    assert str(Report([], ["one"], (), [KL])).startswith("check passed, quality poor\n")
    assert str(Report([], ["one"], (), [evolve(KL, passed=False)])).startswith("check FAILED\n")

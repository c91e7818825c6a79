"""JSON texts of unknown origin: they load, or the error is a documented one of one line, also when the spec is used."""

import json

import pytest
from mutated import CONFIG, LONG_SUM, mutated_texts
from refusals import refusal

from onnxfn import Difference, ExportSpec, InvalidSpec, MissingValue, Normalizer, UnknownName
from onnxfn.specs.algebra.config_values import read_config
from onnxfn.specs.algebra.facts import fixes
from onnxfn.specs.axes import axis_map, shape
from onnxfn.specs.plan.planning import dummy_inputs, plan
from onnxfn.specs.stored.serialize import DEEPEST, from_json, from_plain, to_json

DOCUMENTED = (InvalidSpec, UnknownName, MissingValue)


def outcome(text):
    """What happens to a text that is loaded, printed, planned and used: a stage, or the name of a documented error."""
    try:
        record = from_json(text, record=object)
        to_json(record)
        str(record)
        if not isinstance(record, ExportSpec):
            return "another record"
        str(plan(record, CONFIG))
        dummy_inputs(record, CONFIG, "np")
    except DOCUMENTED as error:
        return type(error).__name__ if len(str(error).splitlines()) == 1 else str(error)
    return "used"


def outcomes(count, seed):
    return {outcome(text) for text in mutated_texts(count, seed)} - {"another record"}


ALL_OUTCOMES = {"used", "InvalidSpec", "WrongType", "UnknownName", "MissingValue"}


def test_mutated_specs_are_used_or_refused():
    assert outcomes(400, seed=7) == ALL_OUTCOMES


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(6))
def test_6000_mutated_specs_are_used_or_refused(seed):
    assert outcomes(1000, seed=seed) == ALL_OUTCOMES


@pytest.mark.parametrize(
    "text",
    [
        *("", "[", "9" * 5000, "NaN", "5", '"text"', "null", '{"record": 5}', "{}", "[" * 100_000, '{"a":' * 100_000),
        '{"record": "AxisMap", "pattern": 5}',
        '{"record": "AxisMap", "pattern": "a", "other": 1}',
        '{"record": "AxisMap", "pattern": "\\ud800"}',
        '{"record": "AxisMap", "pattern": "a//0"}',
        '{"record": "AxisFacts", "name": "\\ud800", "size": 1}',
        '{"record": "AxisFacts", "\\ud800": "batch_size", "size": 1}',
        '{"record": "AxisFacts", "name": "batch\\u0000size", "size": 1}',
        '{"record": "AxisFacts", "name": "batch_size", "size": true}',
        '{"record": "AxisFacts", "name": "batch_size", "size": 1.5}',
        '{"record": "Check", "atol": NaN}',
        '{"record": "Check", "atol": Infinity}',
        '{"record": "InputSpec", "name": "x", "axes": "batch_size", "generator": "ids", "kind": "int7"}',
        '{"record": "ExportSpec", "inputs": "input_ids"}',
        '{"record": "ExportSpec", "inputs": [["input_ids"]]}',
        '{"record": "ExportSpec", "inputs": [{"record": "AxisFacts", "name": "x", "size": 1}]}',
        '{"record": "Generator", "name": "ids", "function": "integers", "arguments": [["high"]]}',
    ],
    ids=lambda text: text[:50].encode("ascii", "replace").decode(),
)
def test_a_text_with_a_fault_is_refused(text):
    with pytest.raises((InvalidSpec, UnknownName)) as caught:
        from_json(text, record=object)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 800


def test_a_figure_of_a_report_may_be_infinite():
    """A failed check of a model with infinite outputs has such figures."""
    figures = '"max_abs": Infinity, "max_rel": Infinity, "tolerance": 1e-5, "worst_case": "x", "passed": false'
    text = f'{{"record": "Difference", "part": "model", "output": "y", "shapes": [[2]], {figures}}}'
    assert from_json(text, record=Difference).max_abs == float("inf")


def nested(depth):
    data = "vocab_size"
    for _ in range(depth):
        data = {"record": "Getter", "function": "from_config", "arguments": [data]}
    return data


def test_nested_records_have_a_limit_and_can_be_used_up_to_it():
    deepest = DEEPEST // 2
    getter = from_plain(nested(deepest))
    assert str(getter).startswith("from_config(from_config(")
    assert read_config(Normalizer(), {"vocab_size": 3}, getter) == 3
    assert refusal(InvalidSpec, from_plain, nested(deepest + 1)) == f"the records are nested more than {DEEPEST} deep"


@pytest.mark.parametrize(
    "word",
    [
        *("a//0", "a//(b//0)", "\ud800", "a\0b", "9" * 5000, f"a+{'9' * 5000}", f"a*{1 << 63}", str(1 << 63), LONG_SUM),
        *("(", "(" * 300 + "a" + ")" * 300, "a.b", "a[0]", "f(a)", "(a:=1)", "lambda:a", "a if b else c", "a**b"),
        *("\u0663", "-a", "1.5*a"),
    ],
    ids=lambda word: ascii(word)[:40],
)
def test_an_axis_is_never_evaluated_and_has_limits(word):
    message = refusal(InvalidSpec, axis_map, word)
    assert message.startswith("axis ")
    assert len(message) < 700


def test_the_largest_size_is_an_axis():
    assert shape(axis_map(str((1 << 63) - 1)), {}) == ((1 << 63) - 1,)


@pytest.mark.parametrize(
    ("getter", "reason"),
    [
        ({"function": "quotient", "arguments": ["vocab_size"]}, "missing 1 required positional argument"),
        ({"function": "quotient", "arguments": ["vocab_size", "zero"]}, "division"),
        ({"function": "total", "arguments": ["labels", "vocab_size"]}, "unsupported operand"),
        ({"function": "power", "arguments": ["vocab_size", "vocab_size"]}, "99 to the power of 99 is too large"),
        ({"function": "total", "arguments": [5]}, "5 is not a source"),
    ],
)
def test_a_getter_that_cannot_be_computed_is_refused(getter, reason):
    source = from_plain({"record": "Getter", **getter})
    config = {"vocab_size": 99, "zero": 0, "labels": "text"}
    assert reason in refusal(InvalidSpec, plan, fixes("batch_size", source), config)


def test_a_dummy_that_is_too_large_is_refused_before_it_is_computed():
    inputs = '[{"record": "InputSpec", "name": "x", "axes": "1000000 1000000", "generator": "x"}]'
    dummies = '{"record": "Dummies", "generators": [{"record": "Generator", "name": "x", "function": "normal"}]}'
    spec = from_json(json.dumps({"record": "ExportSpec", "inputs": json.loads(inputs), "dummies": json.loads(dummies)}))
    message = refusal(InvalidSpec, dummy_inputs, spec, {}, "np")
    assert message == "the dummy of 'x' has the shape [1000000, 1000000]: above 268435456 elements"


def test_an_edit_with_other_arguments_is_refused():
    edit = {"record": "Edit", "function": "with_opset", "arguments": [["version", 18]]}
    files = [{"record": "File", "name": "model", "edits": [edit]}]
    spec = from_plain({"record": "ExportSpec", "parts": {"record": "Parts", "files": files}})
    message = refusal(InvalidSpec, plan, spec, {})
    assert message.startswith("edit 'with_opset' does not take the arguments {'version': 18}")

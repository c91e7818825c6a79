import json
from ast import literal_eval
from pathlib import Path
from types import SimpleNamespace

import pytest
from refusals import refusal

from onnxfn.specs.algebra.compose import constant, either, from_config, quotient, reads
from onnxfn.specs.algebra.config_values import GETTERS, UNKNOWN, is_set, parsed, read_config, snapshot
from onnxfn.specs.errors import InvalidSpec, MissingValue, UnknownName, listed
from onnxfn.specs.records import Getter, Normalizer

CONFIG = {
    "hidden_size": 64,
    "n_head": 4,
    "head_dim": None,
    "type_vocab_size": 0,
    "hidden_act": "gelu",
    "tie": False,
    "layers": ["full", "full", "sliding"],
    "some": [1, 3],
    "no": [],
    "overrides": {"3": {"heads": 2}, "7": {"heads": 4, "head_dim": 32}},
    "vision_config": {"image_size": 224, "hidden_size": 32, "empty": None},
}
NO_NAMES = Normalizer()

TEXTS = json.loads(Path(__file__).with_name("sources.json").read_text())
"""Sources in the notation of formulas, and their values for `CONFIG` as Python writes them."""

EXPECTED = [
    *((source, literal_eval(value)) for source, value in TEXTS),
    (from_config("n_head"), 4),
    (either("num_heads", "n_head"), 4),
    (either("head_dim", constant(16)), 16),
    (either("type_vocab_size", constant(2)), 0),
    (quotient("hidden_size", "n_head"), 16),
    (quotient("hidden_size", constant(5)), 12),
    (constant(2.5), 2.5),
    (either("some[2]", "n_head"), 4),
]


@pytest.mark.parametrize(("source", "value"), EXPECTED, ids=str)
def test_a_source_has_a_value(source, value):
    assert read_config(NO_NAMES, CONFIG, source) == value
    assert type(read_config(NO_NAMES, CONFIG, source)) is type(value)


def test_every_getter_is_tested_above():
    getters = [parsed(source) if isinstance(source, str) else source for source, _ in EXPECTED]
    assert {getter.function for getter in getters if isinstance(getter, Getter)} == set(GETTERS)


@pytest.mark.parametrize(
    "text",
    ["a +", "a / b", "a % b", "min(a)", "a.b()", "f'{a}'", "a < 2", "a and b", "a == b", "a[b]", "x" * 501 + "+1", ""],
)
def test_another_text_is_no_source(text):
    assert "is not a source: a source is a name, a dotted path or a formula" in refusal(InvalidSpec, parsed, text)


def test_a_formula_without_a_configuration_is_a_number_or_missing():
    assert read_config(NO_NAMES, UNKNOWN, from_config("2")) == read_config(NO_NAMES, UNKNOWN, "2") == 2
    assert "which is left out: plan(spec, config)" in refusal(MissingValue, read_config, NO_NAMES, UNKNOWN, "n_head+1")


@pytest.mark.parametrize(
    ("spec", "values"),
    [
        (reads(heads="n_head", head_dim=quotient("hidden_size", "heads")), {"head_dim": 16}),
        (reads(n_head="n_head", hidden_size=either("hidden_size", "n_embd")), {"n_head": 4, "hidden_size": 64}),
        (reads(hidden_size="n_head", n_head="hidden_size"), {"hidden_size": 64, "n_head": 4}),
    ],
    ids=["another entry", "its own entry is a key of the configuration", "entries that refer to each other"],
)
def test_a_name_is_read_from_where_the_normalizer_says(spec, values):
    assert {name: read_config(spec.normalizer, CONFIG, name) for name in values} == values


@pytest.mark.parametrize(
    ("config", "source", "message"),
    [
        (
            {"hidden_size": 64, "n_head": 4, "x": None},
            "hiden_size",
            "no 'hiden_size'; it has: hidden_size, n_head; did you mean 'hidden_size'?",
        ),
        (
            CONFIG,
            "vision_config.imagesize",
            (
                "no 'imagesize' (part 2 of 'vision_config.imagesize'); it has: hidden_size, image_size; "
                "did you mean 'image_size'?"
            ),
        ),
        (CONFIG, "hidden_size.image_size", "no 'image_size' (part 2 of 'hidden_size.image_size'); it has: none"),
        ({"a": 1}, either("b", "c"), "no 'b'; it has: a; and the configuration has no 'c'; it has: a"),
    ],
)
def test_a_missing_key_is_an_error_that_lists_the_keys_and_names_the_closest(config, source, message):
    assert refusal(MissingValue, read_config, NO_NAMES, config, source) == f"the configuration has {message}"


def test_an_unknown_getter_is_an_error_that_names_the_closest():
    message = refusal(UnknownName, read_config, NO_NAMES, CONFIG, Getter("quotent", ("a", "b")))
    assert message == f"no getter 'quotent'; known: {listed(GETTERS)}; did you mean 'quotient'?"


@pytest.mark.parametrize(
    ("condition", "expected"),
    [(None, True), ("n_head", True), ("type_vocab_size", False), ("nowhere", False), ("not tie", True)],
    ids=str,
)
def test_a_condition_holds_when_its_value_is_true(condition, expected):
    assert is_set(NO_NAMES, CONFIG, condition) is expected


class Config:
    """A configuration like those of transformers: it has `to_dict` and an `attribute_map`."""

    def __init__(self, attribute_map=(), model_type="", **values):
        self.attribute_map = dict(attribute_map)
        self.model_type = model_type
        vars(self).update(values)
        self.names = tuple(values)

    def to_dict(self):
        return {name: getattr(self, name) for name in self.names}


def test_a_mapping_is_its_own_snapshot():
    assert snapshot(CONFIG) is CONFIG


def test_a_snapshot_has_the_names_of_the_attribute_map():
    config = Config({"num_attention_heads": "n_head", "hidden_size": "n_embd"}, n_head=4)
    assert snapshot(config) == {"n_head": 4, "num_attention_heads": 4}


def test_the_configurations_inside_a_configuration_have_their_mapped_names_too():
    config = Config(vision_config=Config({"hidden_size": "d_model"}, "vit", d_model=32))
    assert snapshot(config) == {"vision_config": {"d_model": 32, "hidden_size": 32, "model_type": "vit"}}


def test_the_snapshot_of_a_model_is_that_of_its_configuration():
    assert snapshot(SimpleNamespace(config=Config(model_type="bert"))) == {"model_type": "bert"}

"""Where a configuration keeps things."""

from types import SimpleNamespace

import pytest
from refusals import refusal

from onnxfn.specs.errors import InvalidSpec, MissingValue, UnknownName, listed
from onnxfn.specs.getters import (
    GETTERS,
    at_least,
    complement,
    constant,
    convolved,
    count,
    difference,
    either,
    equals,
    every_nth,
    first_with,
    from_config,
    if_else,
    indices_where,
    is_set,
    item,
    less_than,
    log2,
    maximum,
    nearest,
    negated,
    power,
    product,
    quotient,
    read_config,
    reads,
    repeated,
    rounded_to_even,
    snapshot,
    total,
)
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
NONE = Normalizer()

FOUND = [
    ("hidden_size", 64),
    ("vision_config.image_size", 224),
    ("type_vocab_size", 0),
    (from_config("n_head"), 4),
    (either("num_heads", "n_head"), 4),
    (either("head_dim", constant(16)), 16),
    (either("type_vocab_size", constant(2)), 0),
    (quotient("hidden_size", "n_head"), 16),
    (quotient("hidden_size", constant(5)), 12),
    (nearest("hidden_size", constant(3)), 21),
    (nearest("hidden_size", constant(25.0)), 3),
    (nearest("hidden_size", constant(128)), 0),
    (product("n_head", "n_head", constant(2)), 32),
    (product(), 1),
    (total("hidden_size", "n_head", constant(1)), 69),
    (total(), 0),
    (count("layers"), 3),
    (constant(2.5), 2.5),
    (negated("type_vocab_size"), True),
    (negated("nowhere"), True),
    (negated("n_head"), False),
    (at_least("n_head", 4), True),
    (at_least("n_head", 5), False),
    (equals("hidden_act", "gelu"), True),
    (equals("hidden_act", "relu"), False),
    (quotient(either("nowhere", "hidden_size"), total("n_head", "n_head")), 8),
    (power("n_head", constant(2)), 16),
    (item("layers", 2), "sliding"),
    (either(item("hidden_size", 0), "hidden_size"), 64),
    (either(item("some", 2), "n_head"), 4),
    (if_else("tie", "hidden_size", "n_head"), 4),
    (if_else("hidden_act", "hidden_size", "n_head"), 64),
    (if_else("nowhere", "hidden_size", "n_head"), 4),
    (indices_where("layers", "full"), (0, 1)),
    (indices_where("layers", "full", "sliding"), (0, 1, 2)),
    (complement("n_head", "some"), (0, 2)),
    (every_nth("n_head", constant(2), constant(1)), (1, 3)),
    (difference("hidden_size", "n_head"), 60),
    (less_than(indices_where("layers", "full", "sliding"), constant(2)), (0, 1)),
    (first_with("overrides", "head_dim"), 32),
    (repeated("n_head", constant(2)), (4, 4)),
    (repeated("nowhere", constant(0)), ()),
    (log2("n_head"), 2),
    (log2(constant(1)), 0),
    (rounded_to_even("some"), (0, 2)),
    (maximum("some"), 3),
    (convolved("samples", "some", "some"), "( ( samples - 1 ) // 1 + 1 - 3 ) // 3 + 1"),
    (convolved(convolved("samples", "some", "some"), "no", "no"), "( ( samples - 1 ) // 1 + 1 - 3 ) // 3 + 1"),
]


@pytest.mark.parametrize(("source", "found"), FOUND, ids=str)
def test_a_source_finds(source, found):
    assert read_config(NONE, CONFIG, source) == found


def test_every_getter_finds_something_here():
    assert {source.function for source, _ in FOUND if isinstance(source, Getter)} == set(GETTERS)


def test_a_name_is_looked_up_where_the_normalizer_says():
    normalizer = reads(heads="n_head", head_dim=quotient("hidden_size", "heads")).normalizer
    assert read_config(normalizer, CONFIG, "head_dim") == 16


def test_a_name_inside_its_own_entry_is_the_configurations_key():
    normalizer = reads(n_head="n_head", hidden_size=either("hidden_size", "n_embd")).normalizer
    assert (read_config(normalizer, CONFIG, "n_head"), read_config(normalizer, CONFIG, "hidden_size")) == (4, 64)


def test_names_that_read_each_other_end_in_the_configuration():
    normalizer = reads(hidden_size="n_head", n_head="hidden_size").normalizer
    assert (read_config(normalizer, CONFIG, "hidden_size"), read_config(normalizer, CONFIG, "n_head")) == (64, 4)


def test_a_missing_key_is_said_with_what_there_is_and_the_closest():
    assert refusal(MissingValue, read_config, NONE, {"hidden_size": 64, "n_head": 4, "x": None}, "hiden_size") == (
        "the configuration has no 'hiden_size'; it has: hidden_size, n_head; did you mean 'hidden_size'?"
    )


def test_a_missing_part_of_a_path_is_said_with_the_path():
    assert refusal(MissingValue, read_config, NONE, CONFIG, "vision_config.imagesize") == (
        "the configuration has no 'imagesize' (part 2 of 'vision_config.imagesize'); "
        "it has: hidden_size, image_size; did you mean 'image_size'?"
    )


def test_a_path_through_a_number_is_missing():
    assert refusal(MissingValue, read_config, NONE, CONFIG, "hidden_size.image_size") == (
        "the configuration has no 'image_size' (part 2 of 'hidden_size.image_size'); it has: none"
    )


def test_when_no_place_holds_anything_each_is_said():
    assert refusal(MissingValue, read_config, NONE, {"a": 1}, either("b", "c")) == (
        "the configuration has no 'b'; it has: a; and the configuration has no 'c'; it has: a"
    )


def test_an_unknown_getter_is_refused_with_the_closest():
    told = refusal(UnknownName, read_config, NONE, CONFIG, Getter("quotent", ("a", "b")))
    assert told == f"no getter 'quotent'; known: {listed(GETTERS)}; did you mean 'quotient'?"


@pytest.mark.parametrize(
    ("condition", "met"),
    [(None, True), ("n_head", True), ("type_vocab_size", False), ("nowhere", False), (negated("tie"), True)],
    ids=str,
)
def test_a_condition_is_met_when_something_true_is_there(condition, met):
    assert is_set(NONE, CONFIG, condition) is met


class Told:
    """A configuration as transformers makes them: it tells itself as a dict, and maps some names."""

    def __init__(self, attribute_map=(), model_type="", **told):
        self.attribute_map = dict(attribute_map)
        self.model_type = model_type
        vars(self).update(told)
        self.names = tuple(told)

    def to_dict(self):
        return {name: getattr(self, name) for name in self.names}


def test_a_mapping_is_its_own_snapshot():
    assert snapshot(CONFIG) is CONFIG


def test_mapped_names_answer_too():
    config = Told({"num_attention_heads": "n_head", "hidden_size": "n_embd"}, n_head=4)
    assert snapshot(config) == {"n_head": 4, "num_attention_heads": 4}


def test_configurations_inside_a_configuration_are_told_with_their_mapped_names():
    config = Told(vision_config=Told({"hidden_size": "d_model"}, "vit", d_model=32))
    assert snapshot(config) == {"vision_config": {"d_model": 32, "hidden_size": 32, "model_type": "vit"}}


def test_a_model_is_told_by_its_configuration():
    assert snapshot(SimpleNamespace(config=Told(model_type="bert"))) == {"model_type": "bert"}


def test_what_is_no_configuration_is_refused():
    assert refusal(InvalidSpec, snapshot, 7) == (
        "a configuration is a dict, a transformers configuration or a model, not int"
    )

"""The bits of weights within a limit: each weight has one way, the limit holds, and more bytes are never worse."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal
from strategies import limits

from onnxfn.specs.algebra.bit_choice import Storage, chosen_storage, total_bytes, total_kl
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.quantization import WeightRule, Within, within_of

ways = st.builds(Storage, st.sampled_from((2, 4, 8, None)), st.integers(0, 99), st.floats(0, 1))
tables = st.dictionaries(st.text("ab", min_size=1), st.lists(ways, min_size=1, max_size=4), min_size=1, max_size=5)


def fewest(table):
    return sum(min(way.bytes for way in several) for several in table.values())


def least(table):
    return sum(min(way.kl for way in several) for several in table.values())


@given(tables, st.integers(0, 200), st.integers(0, 200))
def test_more_bytes_hold_and_never_have_a_larger_divergence(table, room, more):
    limits = [max(1, fewest(table)) + room, max(1, fewest(table)) + room + more]
    small, large = (chosen_storage(table, Within("bytes", limit)) for limit in limits)
    assert total_bytes(small) <= limits[0]
    assert total_kl(large) <= total_kl(small) + 1e-9
    assert all(small[name] in several for name, several in table.items())


@given(tables, st.floats(1e-6, 2))
def test_a_limit_of_divergence_holds_with_one_way_for_each_weight(table, room):
    limit = least(table) + room
    chosen = chosen_storage(table, Within("kl", limit))
    assert total_kl(chosen) <= limit
    assert all(chosen[name] in several for name, several in table.items())
    assert {*chosen} == {*table}


@given(st.dictionaries(st.text("ab", min_size=1), st.lists(ways, min_size=2, max_size=2)), st.floats(1e-6, 2))
def test_no_weight_has_more_bytes_than_a_limit_of_divergence_needs(table, room):
    limit = least(table) + room
    chosen = chosen_storage(table, Within("kl", limit))
    for name, several in table.items():
        smaller = [way for way in several if way.bytes < chosen[name].bytes]
        assert all(total_kl({**chosen, name: way}) > limit for way in smaller)


def test_a_limit_that_cannot_be_reached_says_the_least():
    table = {"a": [Storage(4, 600_000, 0.5), Storage(8, 900_000, 0.25)]}
    for limit, words in (
        (Within("bytes", 500_000), "within='0.5 MB' cannot be reached; the least possible is '0.6 MB'"),
        (Within("kl", 0.1), "within='kl=0.1' cannot be reached; the least possible is 'kl=0.25'"),
    ):
        assert words in refusal(InvalidSpec, chosen_storage, table, limit)


@given(limits)
def test_a_limit_is_what_its_text_says(limit):
    assert within_of(str(limit)) == limit


@pytest.mark.parametrize("text", ["", "0.6", "GB", "kl=", "kl=0.1 GB", "1.2.3 GB", "-1 GB", "kl=0", "0 MB", "6 TB"])
def test_another_text_is_no_limit(text):
    assert "within" in refusal(InvalidSpec, WeightRule, within=text)


def test_only_blocks_have_a_choice_of_bits():
    assert "within is for 'blocks'" in refusal(InvalidSpec, lambda: WeightRule(kind="nf4", within="1 GB"))

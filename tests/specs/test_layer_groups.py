"""Rows that differ in the number of a layer alone, as one row."""

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxfn.specs.short_repr import grouped_rows, layer_groups, number_ranges

RANGES = re.compile(r"\{([0-9.,]+)\}")

words = st.sampled_from(("past", "present", "key", "value", "0", "1", "2", "07", "x1", "1x"))
names = st.lists(words, min_size=1, max_size=4).map(".".join)
cells = st.sampled_from(("float[2, 3]", "float[2, 4]", "forward: cache.0.keys", "forward: cache.1.keys", "a.0.b.1", ""))
any_rows = st.lists(st.tuples(names, cells) | st.tuples(names), max_size=12)

layer_numbers = st.sets(st.integers(0, 120), min_size=1, max_size=12).map(sorted)


def numbers_of(ranges):
    """The numbers that `0..2,5` means."""
    ends = [[int(end) for end in part.split("..")] for part in ranges.split(",")]
    return [number for first, *last in ends for number in range(first, (last or [first])[0] + 1)]


def expanded(row):
    """The rows that a printed row means."""
    columns = [numbers_of(ranges) for ranges in RANGES.findall("\n".join(row))]
    for numbers in zip(*columns, strict=True) if columns else [()]:
        following = iter(map(str, numbers))
        yield tuple(RANGES.sub(lambda _, following=following: next(following), "\n".join(row)).split("\n"))


@given(any_rows)
def test_the_groups_are_a_partition_of_the_rows(rows):
    groups = layer_groups(rows)
    assert sorted(index for group in groups for index in group) == list(range(len(rows)))
    assert [group[0] for group in groups] == sorted(group[0] for group in groups)
    assert all(group == sorted(group) for group in groups)


@given(any_rows)
def test_the_printed_rows_mean_all_rows_and_no_others(rows):
    assert Counter(row for printed in grouped_rows(rows) for row in expanded(printed)) == Counter(rows)


@given(any_rows)
def test_the_printed_row_of_a_group_means_its_rows_in_their_order(rows):
    for printed, group in zip(grouped_rows(rows), layer_groups(rows), strict=True):
        assert list(expanded(printed)) == [rows[index] for index in group]


@given(any_rows)
def test_grouping_printed_rows_changes_nothing(rows):
    printed = grouped_rows(rows)
    assert grouped_rows(printed) == printed


@given(layer_numbers, st.lists(st.sampled_from("abcd"), min_size=1, max_size=4, unique=True))
def test_the_cache_of_a_decoder_is_one_row_for_each_kind_of_tensor(numbers, kinds):
    rows = [(f"past.{number}.{kind}", "[batch]", f"cache.{number}.0.{kind}") for number in numbers for kind in kinds]
    printed = grouped_rows(rows)
    assert len(printed) == len(kinds)
    assert [row for layer in zip(*map(expanded, printed), strict=True) for row in layer] == rows


@given(st.lists(st.booleans(), min_size=1, max_size=12))
def test_two_kinds_of_layers_are_two_groups(attends):
    rows = [(f"past.{layer}.state", "[2, 3]" if attends[layer] else "[7]") for layer in range(len(attends))]
    printed = grouped_rows(rows)
    assert len(printed) == len(set(attends))
    for row in printed:
        assert list(expanded(row)) == [other for other in rows if other[1] == row[1]]


@pytest.mark.parametrize(
    ("rows", "printed"),
    [
        ([("past.0.key",), ("past.1.key",)], ["past.{0,1}.key"]),
        ([(f"past.{layer}.key",) for layer in range(30)], ["past.{0..29}.key"]),
        ([(f"past.{layer}.key",) for layer in (0, 2, 4)], ["past.{0,2,4}.key"]),
        ([("past.1.key",), ("past.0.key",)], ["past.1.key", "past.0.key"]),
        ([("maps.0.0",), ("maps.0.1",), ("maps.1.0",), ("maps.1.1",)], ["maps.0.{0,1}", "maps.1.{0,1}"]),
        ([("maps.0.0",), ("maps.1.1",)], ["maps.0.0", "maps.1.1"]),
        ([("logits",), ("logits",)], ["logits", "logits"]),
        ([("layer_0",), ("layer_1",)], ["layer_0", "layer_1"]),
        ([("hidden.0", "out.1"), ("hidden.1", "out.2")], ["hidden.{0,1}"]),
        ([("hidden.0", "out.1"), ("hidden.1", "out.3")], ["hidden.0", "hidden.1"]),
    ],
)
def test_names_are_printed_as(rows, printed):
    assert [row[0] for row in grouped_rows(rows)] == printed


@pytest.mark.parametrize(("numbers", "ranges"), [([4], "4"), ([0, 1], "0,1"), ([0, 1, 2, 4, 5], "0..2,4,5")])
def test_three_numbers_in_a_row_are_a_range(numbers, ranges):
    assert number_ranges(numbers) == ranges


@given(layer_numbers)
def test_ranges_mean_their_numbers(numbers):
    assert numbers_of(number_ranges(numbers)) == numbers

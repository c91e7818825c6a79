"""Killed exports: the destination is absent, old, new, or a part of one of these; and the next export cleans up."""

import json
from collections import Counter

import killed_exports
import pytest
from own_processes import printed
from swept import with_sweep

STATES = {
    "fresh": {"absent", "new"},
    "empty": {"absent", "new"},
    "exchanged": {"old", "new"},
    "moved": {"old", "new", "incomplete"},
    "mounted": {"old", "new", "incomplete"},
    "mounted-empty": {"absent", "new", "incomplete"},
    "file": {"old", "new", "incomplete"},
}


def killed(*words):
    """What the program prints; it runs in a process that has not imported torch, and forks."""
    return json.loads(printed(killed_exports.__file__, *words, OMP_NUM_THREADS="1"))


@pytest.mark.parametrize("way", STATES)
def test_a_kill_before_any_change_of_a_folder_leaves_no_mixture(tmp_path, way):
    results = killed("steps", tmp_path / "trial", way)
    assert len(results) > 10
    assert {state for _, state, _, _ in results} == STATES[way]
    assert {(after, tuple(left)) for _, _, after, left in results} == {("next", ())}


@pytest.mark.parametrize(("way", "count", "seed"), with_sweep([("exchanged", 3, 1)], [(way, 40, 2) for way in STATES]))
def test_kills_of_an_export_at_random_moments_leave_no_mixture(tmp_path, way, count, seed):
    results = killed("moments", tmp_path / "trial", way, count, seed)
    print(way, Counter(state for _, state, _, _ in results))
    assert len(results) == count
    assert {state for _, state, _, _ in results} <= STATES[way]
    assert {(after, tuple(left)) for _, _, after, left in results} == {("next", ())}

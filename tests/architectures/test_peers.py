"""onnxfn and transformers.exporters on a random sample of the pairs of test_every_head.py, in the same run.

`python -m pytest -m sweep --record tests/architectures/test_peers.py` writes `tests/sweeps/peers.json`, a process for
each pair, and `--left` goes on after an interruption.
"""

from __future__ import annotations

import os
import time

import every_head
import peer_pairs
import peer_table
import pytest
import swept
from own_process import ProcessDied, in_own_process

PAIRS = peer_pairs.drawn()


@pytest.mark.sweep
@pytest.mark.parametrize(("model_type", "task"), PAIRS)
def test_a_pair_is_recorded_for_both_exporters(model_type, task, request):
    if request.config.getoption("--left") and swept.is_current(peer_pairs.NAME, model_type, task):
        pytest.skip("the repository has a result of this pair with these versions, and --left chooses the others")
    before = peer_pairs.seen().get(model_type, {}).get(task, {}).get("onnxfn", swept.NOT)
    try:
        result = in_own_process(peer_pairs.LONGEST, peer_pairs.compared, model_type, task)
    except ProcessDied as error:
        result = dict.fromkeys(("onnxfn", "traced", "others"), f"{swept.NOT}{error}") | {"way": ""}
    if request.config.getoption("--record"):
        peer_pairs.record(model_type, task, result)
    assert before.startswith(swept.NOT) or not result["onnxfn"].startswith(swept.NOT), result["onnxfn"]


def test_the_results_are_of_pairs_that_transformers_lists():
    recorded = {(name, task) for name, tasks in peer_pairs.seen().items() for task in tasks}
    assert recorded <= set(every_head.pairs())
    assert all(
        result.keys() == {"onnxfn", "traced", "others", "way"}
        for tasks in peer_pairs.seen().values()
        for result in tasks.values()
    )


def test_onnxfn_is_ahead_of_the_peer_by_10_points():
    assert sum(map(len, peer_pairs.seen().values())) == peer_pairs.COUNT
    assert peer_table.ours() - peer_table.both() >= peer_pairs.COUNT / 10


def test_the_draw_has_100_pairs_and_does_not_change():
    assert len(set(PAIRS)) == peer_pairs.COUNT == 100
    assert peer_pairs.drawn() == PAIRS


def test_a_process_that_crashes_or_takes_too_long_is_ended_alone():
    assert in_own_process(60, len, "abc") == 3
    with pytest.raises(ProcessDied, match="ended with -6"):
        in_own_process(60, os.abort)
    with pytest.raises(ProcessDied, match="no result after 0 s"):
        in_own_process(0.2, time.sleep, 60)

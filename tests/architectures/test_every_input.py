"""Every input that a processor gives is taken by the graphs of a pair, by default or with an edit, or it is listed.

`python -m pytest -m sweep --record tests/architectures/test_every_input.py` writes `tests/sweeps/every_input.json`.
"""

from __future__ import annotations

import every_head
import every_input
import pytest
import swept

import onnxfn

PAIRS = every_input.pairs()


def test_each_pair_that_agrees_has_a_line():
    assert swept.pairs(every_input.NAME) == {*PAIRS}


def test_chinese_clip_takes_segment_ids(tmp_path):
    model = every_head.tiny_model("chinese_clip", "feature-extraction")
    spec = onnxfn.with_input(onnxfn.spec_for("chinese_clip", "feature-extraction"), "token_type_ids")
    result = onnxfn.export(spec, model, tmp_path / "out")
    assert "token_type_ids" in result.plan.parts[0].inputs
    assert every_input.missing(spec, model) == []


@pytest.mark.sweep
@pytest.mark.parametrize(("model_type", "task"), PAIRS)
def test_every_input_is_recorded(model_type, task, tmp_path, request):
    line = every_input.line(model_type, task, tmp_path / "out")
    if request.config.getoption("--record"):
        swept.record(every_input.NAME, model_type, task, line, {*PAIRS})
    assert line == swept.seen(every_input.NAME)[model_type][task]

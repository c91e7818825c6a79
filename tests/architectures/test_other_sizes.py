"""Every row at sizes that neither its trace nor its check has: odd, prime, smaller, larger, padded on each side."""

import every_head
import other_sizes
import pytest
import shrunk
import swept

import onnxfn

PAIRS = other_sizes.pairs()

SAMPLE = (
    ("depth_anything", "depth-estimation"),
    ("maskformer", "image-segmentation"),
    ("tipsv2_dpt", "depth-estimation"),
    ("llama", "text-generation"),
)
"""Models that were wrong at such sizes, and a decoder."""

DERIVED = {"aimv2": "Aimv2Model", "deepseek_v32": "DeepseekV32Model", "xlstm": "xLSTMModel"}
"""Models without a row that were wrong at such sizes, or under padding on the left."""


@pytest.mark.parametrize(("model_type", "task"), SAMPLE)
def test_a_row_agrees_with_pytorch_at_other_sizes(model_type, task, tmp_path):
    model = every_head.tiny_model(model_type, task)
    assert "cases" in other_sizes.tried(onnxfn.spec_for(model, task), model, tmp_path / "out")


@pytest.mark.parametrize("model_type", DERIVED)
def test_a_derived_spec_agrees_with_pytorch_at_other_sizes(model_type, tmp_path):
    model = shrunk.model(model_type, DERIVED[model_type])
    assert "cases" in other_sizes.tried(onnxfn.derived(model), model, tmp_path / "out")


@pytest.mark.sweep
@pytest.mark.parametrize(("model_type", "task"), PAIRS)
def test_every_row_at_other_sizes_is_recorded(model_type, task, only_left, record):
    only_left(other_sizes.NAME, model_type, task)
    before = swept.seen(other_sizes.NAME).get(model_type, {}).get(task, swept.NOT)
    line = other_sizes.line(model_type, task)
    record(other_sizes.NAME, model_type, task, line, set(PAIRS))
    assert before.startswith(swept.NOT) or not line.startswith(swept.NOT), line


def test_every_row_is_a_pair_of_the_sweep():
    assert len(PAIRS) == len(dict(PAIRS)) > 400

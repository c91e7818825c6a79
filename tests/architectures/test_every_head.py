"""Every head that transformers' tables list: which pairs of a model type and a task have a spec, and which agree.

The default run exports `SAMPLE`. The sweep exports every pair that the tables list, and records a line for each:
`python -m pytest -m sweep --record tests/architectures/test_every_head.py` writes `tests/sweeps/heads.json`, and
`--left` goes on after an interruption.
"""

from __future__ import annotations

import every_head
import pytest
import swept
import without_rows

import onnxfn
from onnxfn import ARCHITECTURES

PAIRS = every_head.pairs()

SAMPLE = (
    ("bert", "next-sentence-prediction"),
    ("blip_2_qformer", "feature-extraction"),
    ("cpmant", "feature-extraction"),
    ("falcon", "text-classification"),
    ("fuyu", "feature-extraction"),
    ("hgnet_v2", "feature-extraction"),
    ("idefics", "feature-extraction"),
    ("inkling2_vision", "feature-extraction"),
    ("jev", "decision"),
    ("kosmos-2.5", "feature-extraction"),
    ("kyutai_speech_to_text", "feature-extraction"),
    ("llama4", "text-encoding"),
    ("llava", "feature-extraction"),
    ("mistral", "token-classification"),
    ("modernvbert", "feature-extraction"),
    ("mra", "multiple-choice"),
    ("musicgen", "text-generation"),
    ("neomme", "feature-extraction"),
    ("nllb-moe", "text2text-generation"),
    ("paligemma", "feature-extraction"),
    ("patchtst", "time-series-regression"),
    ("prophetnet", "text-generation"),
    ("qwen3", "question-answering"),
    ("reformer", "fill-mask"),
    ("speecht5", "automatic-speech-recognition"),
    ("swinv2", "backbone"),
    ("t5", "text-classification"),
    ("tapas", "table-question-answering"),
    ("video_llama_3_vision", "feature-extraction"),
    ("voxtral", "automatic-speech-recognition"),
    ("wav2vec2-bert", "audio-xvector"),
)
"""Heads that no row names, of each way to know the inputs and the outputs. Each takes a second or two."""


def spec_of(model_type, task):
    """The spec of a pair without a model; None if a run shows the outputs, or if there is no row."""
    try:
        return onnxfn.spec_for(model_type, task)
    except (onnxfn.InvalidSpec, onnxfn.UnknownName):
        return None


def test_the_tables_list_more_than_1200_pairs():
    assert len(PAIRS) > 1200
    assert len(set(PAIRS)) == len(PAIRS)


def test_of_the_model_types_with_a_row_94_percent_of_the_pairs_need_no_run():
    with_row = [pair for pair in PAIRS if pair[0] in ARCHITECTURES]
    shown_by_a_run = [pair for pair in with_row if spec_of(*pair) is None]
    assert len(shown_by_a_run) < 0.06 * len(with_row), shown_by_a_run


def test_95_percent_of_the_pairs_whose_tiny_model_runs_agree():
    lines = [line for tasks in swept.seen(every_head.NAME).values() for line in tasks.values()]
    counts = every_head.counts(lines)
    assert len(lines) == len(PAIRS)
    assert counts["agreed"] >= 0.95 * (len(lines) - counts["have no tiny model"]), counts


def test_85_percent_of_the_model_types_without_a_row_agree_for_a_task():
    _, with_model, agree = without_rows.counts()
    assert agree >= 0.85 * with_model, without_rows.causes()


@pytest.mark.parametrize(("model_type", "task"), SAMPLE)
def test_a_head_that_no_row_names_agrees_with_pytorch(model_type, task, tmp_path):
    line = every_head.exported(every_head.tiny_model(model_type, task), task, tmp_path / "out")
    assert not line.startswith(swept.NOT), line


@pytest.mark.parametrize(
    ("inputs", "left_out", "unread"),
    [
        (("input_ids",), ("input_features",), ["input_features"]),
        (("input_values",), ("input_features",), []),
        (("input_features",), ("pixel_values",), ["pixel_values"]),
        (("input_ids",), ("token_type_ids",), []),
    ],
)
def test_a_sound_is_read_where_another_argument_holds_it(inputs, left_out, unread):
    assert every_head.unread_arguments(inputs, left_out) == unread


@pytest.mark.sweep
@pytest.mark.parametrize(("model_type", "task"), PAIRS)
def test_every_head_is_recorded(model_type, task, tmp_path, only_left, record):
    only_left(every_head.NAME, model_type, task)
    before = swept.seen(every_head.NAME).get(model_type, {}).get(task)
    line = every_head.line(model_type, task, tmp_path / "out")
    record(every_head.NAME, model_type, task, line, set(PAIRS))
    agreed = before is not None and not before.startswith(swept.NOT)
    # A line from before 22 November 2026 may have agreed for texts alone, which counts no longer.
    was_narrow = agreed and every_head.SEEN_OR_HEARD.isdisjoint(before.replace(",", "").split())
    assert not (agreed and line.startswith(swept.NOT)) or (was_narrow and line.startswith(every_head.NARROW)), line


NO_TOWER = {
    "edgetam_vision_model": "its backbone is one of timm, which the tests do not install",
    "gemma3n_vision": "its backbone is one of timm, which the tests do not install",
    "granite4_vision": "the whole model that sees and writes, of which no tiny one is known",
}
"""Model type -> why its tower has no export."""


def test_towers_that_see_agree_by_themselves():
    lines = {
        model_type: tasks["feature-extraction"]
        for model_type, tasks in swept.seen(every_head.NAME).items()
        if "_vision" in model_type and "feature-extraction" in tasks
    }
    agreed = {model_type for model_type, line in lines.items() if not line.startswith(swept.NOT)}
    assert lines.keys() - agreed == NO_TOWER.keys()
    assert sum("grid_thw" in lines[model_type] for model_type in agreed) >= 20

"""Every head that transformers' tables list: which pairs of a model type and a task have a spec, and which agree."""

import every_head
import pytest
import swept

PAIRS = every_head.pairs()

FEATURES = (
    *("blip_2_qformer", "cpmant", "fuyu", "hgnet_v2", "idefics", "inkling2_vision", "kosmos-2.5"),
    *("kyutai_speech_to_text", "llava", "modernvbert", "neomme", "paligemma", "pixtral", "video_llama_3_vision"),
)
SAMPLE = (
    *((model_type, "feature-extraction") for model_type in FEATURES),
    *((model_type, "text-classification") for model_type in ("falcon", "t5")),
    *((model_type, "text-generation") for model_type in ("musicgen", "prophetnet")),
    *((model_type, "automatic-speech-recognition") for model_type in ("speecht5", "voxtral")),
    *(("bert", "next-sentence-prediction"), ("jev", "decision"), ("llama4", "text-encoding")),
    *(("mistral", "token-classification"), ("mra", "multiple-choice"), ("nllb-moe", "text2text-generation")),
    *(("patchtst", "time-series-regression"), ("qwen3", "question-answering"), ("reformer", "fill-mask")),
    *(("swinv2", "backbone"), ("tapas", "table-question-answering"), ("wav2vec2-bert", "audio-xvector")),
)
"""Heads that no row names, of each way to know the inputs and the outputs. Each takes a second or two."""


def test_the_tables_list_each_pair_once():
    assert len(set(PAIRS)) == len(PAIRS)
    assert {*SAMPLE} <= set(PAIRS)


@pytest.mark.parametrize(("model_type", "task"), SAMPLE)
def test_a_head_that_no_row_names_agrees_with_pytorch(model_type, task, tmp_path):
    line = every_head.exported(every_head.tiny_model(model_type, task), task, tmp_path / "out")
    assert not line.startswith(swept.NOT), line


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

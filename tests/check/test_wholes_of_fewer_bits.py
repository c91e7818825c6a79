"""Models that see or hear, in 16 bits and quantized: all of their files, one after the other, against PyTorch."""

import json
from functools import cache
from pathlib import Path

import every_part
import pytest
import swept
from command_line import exported_checkpoint
from faulty_sessions import Faulty

import onnxfn
from onnxfn.check.wholes.torch_whole import WHOLE
from onnxfn.check.wholes.whole_models import whole_model_report
from onnxfn.run.sessions import open_check_session
from onnxfn.specs.edits.token_embeddings import EMBEDDING_FILE

SEES, HEARS = "image-text-to-text-with-past", "audio-text-to-text-with-past"
OUTPUTS = {"logits", "logits of new tokens", "tokens of generate"}


def exported(model_type, task, folder, **options):
    model = every_part.tiny_model(model_type, task)
    return model, onnxfn.export(onnxfn.spec_for(model, task), model, folder, **options)


MORE = (
    *((model_type, SEES) for model_type in ("llava", "llava_onevision", "gemma3", "idefics3", "lfm2_vl")),
    *((model_type, SEES) for model_type in ("mistral3", "paligemma", "qwen3_vl", "smolvlm", "gemma4")),
    *((model_type, HEARS) for model_type in ("granite_speech", "qwen2_audio")),
)


@pytest.mark.parametrize(
    ("model_type", "task"), swept.with_sweep([("florence2", SEES), ("qwen2_vl", SEES), ("voxtral", HEARS)], MORE)
)
def test_files_in_float16_write_the_tokens_of_pytorch(model_type, task, tmp_path):
    model = every_part.tiny_model(model_type, task)
    spec = onnxfn.with_dtypes(onnxfn.spec_for(model, task), float="float16")
    report = onnxfn.export(spec, model, tmp_path / "out").report
    lines = {each.output: each for each in report.differences if each.part == WHOLE}
    assert {*lines} == OUTPUTS
    assert all(each.passed for each in lines.values())
    assert any(case.startswith("16 tokens after 2") for case in report.cases)


def test_the_command_line_writes_float16_of_a_checkpoint_in_bfloat16(tmp_path):
    exported_checkpoint(every_part.tiny_model("llava", SEES).bfloat16(), tmp_path, "--task", SEES, "--dtype", "float16")
    lines = json.loads((tmp_path / "out" / "report.json").read_text())["check"]["outputs"]
    assert {each["output"] for each in lines if each["part"] == "whole model, float16"} == OUTPUTS


def test_quantized_files_are_measured_as_a_whole(tmp_path):
    _, result = exported("llava", SEES, tmp_path / "out", dtypes=("q8", "q4"))
    rows = [each for each in result.report.measurements if each.part.startswith(WHOLE)]
    assert [each.part for each in rows] == [f"{WHOLE}, {dtype}" for dtype in ("q8", "q4")]
    assert [(each.output, each.measure) for each in rows] == 2 * [("logits", "cases")]
    eight, four = rows
    assert eight.value > four.value > four.floor
    assert eight.cases == "4 prompts"
    assert "1 image in a text" in result.report.cases


def test_an_error_between_quantized_files_is_below_the_floor(tmp_path):
    model, result = exported("llava", SEES, tmp_path / "out", dtypes=("q8",), check=False)

    def with_other_rows(file):
        session = open_check_session(file)
        other_rows = Faulty(session, fed=lambda feeds: {"input_ids": (feeds["input_ids"] + 1) % 100})
        return other_rows if file.stem.startswith(EMBEDDING_FILE) else session

    reports = [
        whole_model_report(model, result.plan, Path(result.path), cache(session_for), None)
        for session_for in (open_check_session, with_other_rows)
    ]
    assert [report.passed for report in reports] == [True, False]
    assert [each.output for each in reports[1].measurements if not each.passed] == ["logits"]

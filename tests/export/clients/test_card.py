import json
import re

import pytest
import tiny
from huggingface_hub import ModelCard

from onnxfn import WriteOptions, export, spec_for, verify
from onnxfn.export.clients.card import CARD, card_text

HUB_LAYOUT = WriteOptions(layout="hub")


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    model = tiny.model("llama", "AutoModelForCausalLM")
    folder = tmp_path_factory.mktemp("card") / "tiny-llama"
    export(spec_for(model, "text-generation-with-past"), model, folder, dtypes=("float32", "float16"), write=HUB_LAYOUT)
    return folder


def report_of(folder):
    return json.loads((folder / "report.json").read_text())


def test_the_card_names_every_graph_with_its_size_and_what_was_measured(llama):
    card, report = (llama / CARD).read_text(), report_of(llama)
    rows = dict(re.findall(r"\| `(.+?)` \| (.+) \|", card))
    assert rows.keys() == report["graphs"].keys()
    for path, row in rows.items():
        _, size, _, _, status, of_bound, *_ = row.split(" | ")
        number, unit = size.split(" ")
        assert abs(float(number) * {"kB": 1e3, "MB": 1e6}[unit] - (llama / path).stat().st_size) < 1e4
        assert status in ("ok", "good")
        assert float(of_bound) <= 1
    assert "| agreement |" in card
    assert "model of the type `llama`, opset 18." in card


def test_a_card_draws_the_measured_files_the_largest_first(llama):
    report = report_of(llama)
    shared = {"output": "logits", "measure": "agreement", "floor": 0.4, "cases": "9 tokens", "passed": True}
    measured = [{"part": part, "value": value, **shared} for part, value in (("model", 1.0), ("model_fp16", 0.5))]
    drawn = card_text({**report, "check": {**report["check"], "measurements": measured}})
    bars = re.findall(r" [kM]B  (#*) +agreement [\d.]+ (\S+)$", drawn, re.MULTILINE)
    assert bars == [("#" * 40, "onnx/model.onnx"), ("#" * 20, "onnx/model_fp16.onnx")]


def test_the_card_is_verified_with_the_folder(llama):
    assert CARD in report_of(llama)["files"]
    assert verify(llama).passed
    text = (llama / CARD).read_text()
    try:
        (llama / CARD).write_text(text + "more")
        assert not verify(llama).passed
    finally:
        (llama / CARD).write_text(text)


def test_the_limits_of_clients_are_on_the_card(llama):
    limited = {**report_of(llama), "remarks": ["onnxruntime-genai cannot have keys and values of unlike width (llama)"]}
    assert "## Limits\n\n- onnxruntime-genai cannot" in card_text(limited)


def test_the_hub_reads_the_task_and_the_type(llama):
    data = ModelCard.load(llama / CARD).data
    assert (data.library_name, data.pipeline_tag, data.tags) == ("onnx", "text-generation", ["onnx", "onnxfn", "llama"])


def test_a_card_that_nobody_here_wrote_stays(bert, tmp_path):
    spec = spec_for(bert, "fill-mask")
    (tmp_path / CARD).write_text("my model")
    export(spec, bert, tmp_path, write=HUB_LAYOUT, check=False, overwrite=True)
    assert (tmp_path / CARD).read_text() == "my model"
    assert CARD not in report_of(tmp_path)["files"]
    (tmp_path / CARD).unlink()
    export(spec, bert, tmp_path, write=HUB_LAYOUT, check=False, overwrite=True)
    assert "not compared" in (tmp_path / CARD).read_text()
    export(spec, bert, tmp_path, write=HUB_LAYOUT, overwrite=True)
    assert "cases" in (tmp_path / CARD).read_text()
    (tmp_path / CARD).write_text("changed")
    export(spec, bert, tmp_path, write=HUB_LAYOUT, check=False, overwrite=True)
    assert (tmp_path / CARD).read_text() == "changed"

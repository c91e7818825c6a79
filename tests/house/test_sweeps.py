import json

import pytest
import sweep_pages
import swept

VERSIONS = {"torch": "2.13.0", "transformers": "5.24.0", "onnx": "1.23.2", "onnxruntime": "1.32.0"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(swept, "SWEEPS", tmp_path)
    monkeypatch.setattr(sweep_pages, "SWEEPS", tmp_path)
    monkeypatch.setattr(swept, "installed", lambda: VERSIONS)
    monkeypatch.setattr(swept, "commit", lambda: "056ea07")
    return tmp_path


def test_a_result_is_recorded_with_versions_date_and_commit(folder):
    swept.record("text", "bert", "fill-mask", "max abs diff 1e-07", {("bert", "fill-mask")})
    content = json.loads((folder / "text.json").read_text())
    assert content == {
        "runs": [{"date": swept.today(), "commit": "056ea07", "versions": VERSIONS}],
        "results": {"bert": {"fill-mask": "max abs diff 1e-07"}},
        "seen": 0,
    }
    assert swept.run_of("text", "bert", "fill-mask") == content["runs"][0]


def test_a_pair_has_its_seconds_until_it_leaves_the_table(folder):
    pairs = {("bert", "fill-mask"), ("xlm", "fill-mask")}
    swept.record("text", "bert", "fill-mask", "max abs diff 1e-07", pairs, 1.26)
    swept.record("text", "xlm", "fill-mask", "max abs diff 2e-07", pairs)
    assert json.loads((folder / "text.json").read_text())["seconds"] == {"bert": {"fill-mask": 1.3}}
    assert swept.pairs("text") == pairs
    swept.record("text", "xlm", "fill-mask", "max abs diff 2e-07", {("xlm", "fill-mask")})
    assert swept.pairs("text") == {("xlm", "fill-mask")}


@pytest.mark.parametrize(("torch", "is_current"), [("2.13.1", True), ("2.14.0", False)])
def test_each_line_keeps_the_run_that_gave_it(torch, is_current, folder, monkeypatch):
    pairs = {("bert", "fill-mask"), ("xlm", "fill-mask")}
    swept.record("text", "bert", "fill-mask", "max abs diff 1e-07", pairs)
    monkeypatch.setattr(swept, "installed", lambda: {**VERSIONS, "torch": torch})
    swept.record("text", "xlm", "fill-mask", "max abs diff 2e-07", pairs)
    assert swept.run_of("text", "bert", "fill-mask")["versions"] == VERSIONS
    assert swept.run_of("text", "xlm", "fill-mask")["versions"]["torch"] == torch
    assert swept.is_current("text", "bert", "fill-mask") is is_current
    swept.record("text", "bert", "fill-mask", "max abs diff 1e-07", pairs)
    assert len(swept.recorded("text")["runs"]) == 1


def test_a_tree_with_changes_gives_no_line(monkeypatch):
    monkeypatch.setattr(swept, "git", lambda *arguments: " M onnxfn/a.py" if "status" in arguments else "056ea07")
    with pytest.raises(RuntimeError, match="clean tree"):
        swept.commit()


def test_each_sweep_has_a_page_with_a_row_for_each_line(folder):
    swept.record("text", "bert", "fill-mask", "max abs diff 1e-07, of input_ids", {("bert", "fill-mask")}, 1.3)
    swept.update("decoding", lambda _: {"llama": "max abs diff 2e-06, past a window"}, ("llama",))
    pages = sweep_pages.pages()
    assert f"| bert | fill-mask | 1e-07 | 1.3 | {swept.today()} |" in pages["text.md"]
    assert f"| llama | 2e-06, past a window | {swept.today()} |" in pages["decoding.md"]
    assert "| text | text encoders | 1 | 1 |" in pages["summary.md"]


def test_a_line_that_does_not_agree_is_counted_by_its_reason(folder):
    lines = {"a": {"x": "not: refused: InvalidSpec", "y": "not: refused: UnknownName", "z": "max abs diff 1e-06"}}
    swept.update("heads", lambda _: lines, *(("a", task) for task in "xyz"))
    assert "| heads | 3 | 1 | 2 refused |" in sweep_pages.summary()

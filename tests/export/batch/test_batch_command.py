import json
import re

import pytest
from attrs import fields_dict
from command_line import invoke
from fine_tunes import save_berts

from onnxfn import BatchResult
from onnxfn.export.batch.records import JobResult, batch_sections, batch_title
from onnxfn.specs.results.result_facts import screen


def run(*words):
    return invoke("batch", *words)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    save_berts(folder, 2)
    return folder


def test_a_folder_is_exported_listed_and_gone_on_with(models, tmp_path):
    out = tmp_path / "out"
    listed = run(models, out, "--dry-run")
    assert "2 planned" in listed.output
    assert "2.30 GB" in listed.output
    assert not out.exists()

    options = ("--no-check", "--workers", 1, "--retries", 0, "--seconds", 500, "--memory", 8)
    first = run(models, out, *options)
    assert first.exit_code == 0, first.output
    assert "2 jobs in" in first.output
    assert "2 exported" in first.output
    assert len((out / "batch.jsonl").read_text().splitlines()) == 2

    refused = run(models, out, *options)
    assert refused.exit_code == 1
    assert "--resume" in refused.output
    resumed = run(models, out, *options, "--resume", "--verbose")
    assert resumed.exit_code == 0
    assert "2 unchanged" in resumed.output
    again = run(models, out, *options, "--overwrite", "-v")
    assert again.exit_code == 0, again.output
    assert "2 exported" in again.output


def test_a_failed_job_is_named_and_the_exit_code_is_1(models, tmp_path):
    lines = [{"model": "missing/folder"}, {"model": str(models / "bert-000"), "dtype": "float16"}]
    (tmp_path / "jobs.jsonl").write_text("\n".join(map(json.dumps, lines)))
    result = run(tmp_path / "jobs.jsonl", tmp_path / "out", "--no-check")
    assert result.exit_code == 1
    assert "1 exported, 1 failed" in result.output
    assert "missing/folder" in result.output
    assert (tmp_path / "out/bert-000/onnx/model_fp16.onnx").is_file()


def test_the_result_and_the_dry_run_are_json_alone(models, tmp_path):
    out = tmp_path / "out"
    planned = json.loads(run(models, out, "--dry-run", "--json", "--no-check").stdout)
    assert [job["status"] for job in planned["jobs"]] == ["planned"] * 2
    assert planned["dry_run"]
    assert all(job["memory_bytes"] > 0 for job in planned["jobs"])
    done = run(models, out, "--json", "--no-check", "--workers", 1, "--total-memory", 4)
    content = json.loads(done.stdout)
    assert content["counts"] == {"exported": 2}
    assert {*content["jobs"][0]} == {*fields_dict(JobResult)}
    [first, second] = [line for line in done.stderr.splitlines() if " exported " in line]
    assert re.fullmatch(r"1/2 exported \S*/bert-000, about \d+ s left", first)
    assert re.fullmatch(r"2/2 exported \S*/bert-001, about 0 s left", second)


def test_a_table_has_a_row_for_each_job_and_errors_first():
    jobs = [JobResult("a", f"out/{n}", "exported", 1.5, 2 * 10**9, 3 * 10**6) for n in range(40)]
    jobs.append(JobResult("b", "out/b", "lost", attempts=2, error="the process was killed"))
    result = BatchResult(jobs, 9.0)
    lines = str(result).splitlines()
    assert lines[0] == "41 jobs in 9.0 s: 40 exported, 1 lost"
    assert lines[2].split("  ")[2:] == ["out/b", "lost", "the process was killed"]
    assert lines[5].split() == ["out/0", "exported", "1.5", "s", "2.00", "GB", "3.00", "MB"]
    assert len(lines) == 46
    brief = screen(batch_title(result), batch_sections(result)).splitlines()
    assert len(brief) == 39
    assert brief[-1].strip() == "and 8 more lines: --verbose"

"""Many exports: each job in a process of its own, with limits, retries and a log."""

import json
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from time import sleep

import fine_tunes
import pytest

import onnxfn


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return onnxfn.BuildOptions(template_cache=tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def berts(tmp_path_factory):
    return fine_tunes.save_berts(tmp_path_factory.mktemp("models"), 4)


@pytest.fixture
def jobs(berts, cache, tmp_path):
    return [onnxfn.ExportRequest(bert, tmp_path / bert.name, check=False, build=cache) for bert in berts]


def test_each_job_gets_the_weights_of_its_checkpoint(berts, jobs, tmp_path):
    result = onnxfn.export_many(jobs, workers=2)
    assert [job.status for job in result.jobs] == ["exported"] * 4, result
    assert max(fine_tunes.difference_from_pytorch(bert, tmp_path / bert.name) for bert in berts) < 1e-5
    assert all(job.file_bytes > 0 and job.memory_bytes > 0 and job.seconds > 0 for job in result.jobs)


def test_weights_of_fine_tunes_are_linked(berts, cache, tmp_path):
    write = onnxfn.WriteOptions(layout="hub", weight_storage="link")
    jobs = [onnxfn.ExportRequest(bert, tmp_path / bert.name, check=False, build=cache, write=write) for bert in berts]
    result = onnxfn.export_many(jobs, workers=2)
    assert [job.status for job in result.jobs] == ["exported"] * 4, result
    for bert in berts:
        onnx_folder = tmp_path / bert.name / "onnx"
        assert (onnx_folder / "model.safetensors").samefile(bert / "model.safetensors")
        assert (onnx_folder / "model.onnx_data").stat().st_size < 5000  # a table of 512 positions, which is no weight
        assert fine_tunes.difference_from_pytorch(bert, tmp_path / bert.name) < 1e-5


def test_a_checked_job_compares_its_files_with_pytorch(berts, cache, tmp_path):
    [job] = onnxfn.export_many([onnxfn.ExportRequest(berts[0], tmp_path / "out", build=cache)]).jobs
    assert job.status == "exported", job.error
    assert json.loads((tmp_path / "out/report.json").read_text())["check"]["status"] == "passed"


def test_a_job_that_fails_does_not_end_the_others(jobs, tmp_path):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/config.json").write_text('{"model_type": "bert"')
    broken = [
        onnxfn.ExportRequest(tmp_path / "broken", tmp_path / "a", check=False),
        onnxfn.ExportRequest(tmp_path / "missing", tmp_path / "b", check=False),
    ]
    result = onnxfn.export_many([*broken, jobs[0]], workers=2)
    assert [job.status for job in result.jobs] == ["failed", "failed", "exported"]
    assert "config" in result.jobs[0].error
    assert "missing" in result.jobs[1].error
    assert str(result).splitlines()[0].endswith("1 exported, 2 failed")
    assert not (tmp_path / "a").exists()


def test_a_second_run_exports_only_what_has_changed(jobs, berts, tmp_path):
    log = tmp_path / "log.jsonl"
    onnxfn.export_many(jobs[:2], log=log)
    with log.open("a") as stream:
        stream.write('{"path": "half a li')
    assert [job.status for job in onnxfn.export_many(jobs[:2], log=log).jobs] == ["unchanged"] * 2
    (tmp_path / jobs[1].path / "onnx/model.onnx").unlink()
    assert [job.status for job in onnxfn.export_many(jobs[:2], log=log).jobs] == ["unchanged", "exported"]
    other = onnxfn.ExportRequest(berts[2], jobs[0].path, check=False, build=jobs[0].build)
    assert [job.status for job in onnxfn.export_many([other], log=log).jobs] == ["exported"]
    assert fine_tunes.difference_from_pytorch(berts[2], tmp_path / jobs[0].path) < 1e-5


@pytest.mark.parametrize("find", [fine_tunes.job_processes, fine_tunes.server_processes])
def test_a_job_whose_process_is_killed_is_started_again(find, jobs):
    killed = fine_tunes.kill_first(find)
    result = onnxfn.export_many(jobs, workers=2)
    assert killed
    assert [job.status for job in result.jobs] == ["exported"] * 4, result
    assert sum(job.attempts for job in result.jobs) == 5


def test_a_job_that_is_always_killed_is_lost(jobs):
    def kill(event):
        if event.status in ("start", "retry"):
            fine_tunes.kill_first(fine_tunes.job_processes)

    [job] = onnxfn.export_many(jobs[:1], retries=1, on_event=kill).jobs
    assert (job.status, job.attempts) == ("lost", 2)


@pytest.mark.parametrize(
    ("limits", "status", "words"),
    [
        (onnxfn.JobLimits(memory_bytes=10**9), "out of memory", "the export used more than 1.00 GB, "),
        (onnxfn.JobLimits(seconds=3), "timed out", "the export took longer than 3 s; "),
    ],
)
def test_a_large_job_that_needs_more_than_its_limits_ends_alone(limits, status, words, jobs, tmp_path):
    large = fine_tunes.save_bert_of_a_gigabyte(tmp_path / "large")
    onnxfn.export_many(jobs[:1])  # its graph is in the cache afterwards
    result = onnxfn.export_many(
        [onnxfn.ExportRequest(large, tmp_path / "out", build=jobs[0].build), jobs[1]], limits=limits, workers=2
    )
    assert [job.status for job in result.jobs] == [status, "exported"], result
    assert result.jobs[0].error.startswith(words)
    assert not (tmp_path / "out").exists()


def test_what_the_listener_raises_ends_all_jobs(jobs):
    class Enough(Exception):
        pass

    def stop(event):
        if event.status == "exported":
            raise Enough

    with pytest.raises(Enough):
        onnxfn.export_many(jobs, workers=2, on_event=stop)
    assert not fine_tunes.server_processes()
    assert not fine_tunes.job_processes()


def test_jobs_of_a_broken_pool_are_lost_and_the_call_returns(jobs):
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        pool.submit(os._exit, 1)
        sleep(1)
        result = onnxfn.export_many(jobs[:2], executor=pool, retries=0)
    assert [job.status for job in result.jobs] == ["lost"] * 2
    assert all(job.error for job in result.jobs)


def test_events_count_the_jobs(jobs):
    events = []
    onnxfn.export_many(jobs[:2], on_event=events.append)
    ends = [event for event in events if event.status == "exported"]
    assert [event.completed for event in ends] == [1, 2]
    assert ends[0].remaining > 0
    assert ends[1].remaining == 0
    assert [event.path for event in events if event.status == "start"] == [job.path for job in jobs[:2]]


@pytest.mark.parametrize("other", ["x", "./x", "y/../x", "link"])
def test_two_jobs_with_one_path_are_refused(other, berts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("x")
    with pytest.raises(onnxfn.InvalidSpec, match="same path"):
        onnxfn.export_many([onnxfn.ExportRequest(berts[0], "x"), onnxfn.ExportRequest(berts[1], other)])


def test_a_server_that_cannot_import_a_package_says_so_and_is_not_started_again(jobs, tmp_path, monkeypatch):
    (tmp_path / "broken" / "onnx").mkdir(parents=True)
    (tmp_path / "broken" / "onnx" / "__init__.py").write_text("raise ImportError('libx.so.12: cannot open')")
    monkeypatch.syspath_prepend(str(tmp_path / "broken"))
    result = onnxfn.export_many(jobs[:2], workers=1, retries=3)
    assert [(job.status, job.attempts) for job in result.jobs] == [("failed", 1)] * 2
    error = "the process that runs the exports ended by itself: ImportError: libx.so.12: cannot open"
    assert {job.error for job in result.jobs} == {error}


def test_a_log_that_is_no_text_is_as_none(jobs, tmp_path):
    (tmp_path / "log").write_bytes(b"\xff\xfe\n" + b"[" * 100_000)
    assert [job.status for job in onnxfn.batch_preview(jobs[:1], tmp_path / "log").jobs] == ["planned"]

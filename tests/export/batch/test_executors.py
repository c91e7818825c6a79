"""Jobs by an executor: each has a server, which ends with it, and one that was killed costs an attempt."""

import os
import signal
import tempfile
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from time import sleep
from types import SimpleNamespace

import pytest
from distributed import Client, LocalCluster
from fine_tunes import difference_from_pytorch, kill_first, save_berts, server_processes

from onnxfn import BuildOptions, ExportRequest, export_many


@pytest.fixture
def jobs(tmp_path):
    cache = BuildOptions(template_cache=tmp_path / "cache")
    return [
        ExportRequest(bert, tmp_path / bert.name, check=False, build=cache) for bert in save_berts(tmp_path / "m", 2)
    ]


def test_a_pool_of_processes_runs_jobs_and_no_server_stays(jobs):
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        result = export_many(jobs, executor=executor)
        assert not result.failed, result
        assert not server_processes()


def test_a_server_that_was_killed_is_replaced(jobs):
    killed = kill_first(server_processes)
    with ThreadPoolExecutor(1) as executor:
        result = export_many(jobs[:1], executor=executor)
    assert killed
    assert [(job.status, job.attempts) for job in result.jobs] == [("exported", 2)], result


def test_a_temporary_folder_with_a_long_name_holds_no_socket(jobs, tmp_path, monkeypatch):
    """The name of a socket has at most 108 bytes."""
    folder = tmp_path / ("t" * 100)
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    with ThreadPoolExecutor(1) as executor:
        [job] = export_many(jobs[:1], executor=executor).jobs
    assert job.succeeded, job


def test_a_job_whose_result_was_lost_replaces_its_files(jobs):
    """A worker of dask may be killed after it has written the files and before its result has arrived."""
    submitted = []
    with ThreadPoolExecutor(1) as pool:

        def submit(function, *arguments):
            submitted.append(pool.submit(function, *arguments))
            if len(submitted) > 1:
                return submitted[-1]
            assert submitted[0].result().status == "exported"
            lost = Future()
            lost.set_exception(RuntimeError("the worker was killed"))
            return lost

        [job] = export_many(jobs[:1], executor=SimpleNamespace(submit=submit)).jobs
    assert (job.status, job.attempts) == ("exported", 2), job.error


def test_a_path_that_is_taken_is_refused_before_a_job_runs(jobs):
    folder = Path(jobs[0].path)
    folder.mkdir()
    (folder / "file").touch()
    events = []
    result = export_many(jobs[:2], on_event=events.append)
    assert [job.status for job in result.jobs] == ["failed", "exported"]
    assert "overwrite" in result.jobs[0].error
    assert [event.status for event in events] == ["failed", "start", "exported"]


# A cluster of dask: two worker processes on this machine, which are killed


@pytest.fixture
def client(tmp_path):
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with LocalCluster(**settings, local_directory=tmp_path / "dask") as cluster, Client(cluster) as client:
        yield client


def test_a_cluster_exports_each_job_once_though_the_workers_are_killed(client, tmp_path):
    berts = save_berts(tmp_path / "models", 4)
    build = BuildOptions(template_cache=tmp_path / "cache")
    jobs = [ExportRequest(bert, tmp_path / bert.name, check=False, build=build, overwrite=True) for bert in berts]
    killed, reports = [], []

    def kill_the_workers(event):
        if event.completed == 1 and not killed:
            killed.extend(client.run(os.getpid).values())  # also the worker that has run the job
            for worker in killed:
                os.kill(worker, signal.SIGKILL)
            reports.extend((file, file.stat()) for file in [Path(event.path, "report.json")])

    result = export_many(jobs, executor=client.get_executor(), on_event=kill_the_workers)
    assert killed
    assert [job.status for job in result.jobs] == ["exported"] * 4, result
    assert max(difference_from_pytorch(bert, tmp_path / bert.name) for bert in berts) < 1e-5
    sleep(2)  # dask would export it again, because the worker that had its result is gone
    assert [(file.stat().st_ino, file.stat().st_mtime_ns) for file, _ in reports] == [
        (state.st_ino, state.st_mtime_ns) for _, state in reports
    ]

"""Jobs by an executor: the server of a thread is found again, replaced if it was killed, and ends with the batch."""

import os
import signal
import tempfile
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from time import monotonic, sleep
from types import SimpleNamespace

import pytest
from fine_tunes import kill_first, save_berts, server_processes

from onnxfn import BuildOptions, ExportJob, JobLimits, export_many
from onnxfn.export.batch.executors import run_job


def ends(process, seconds=10.0):
    """Whether a process ends, and its parent waits for it, within so many seconds."""
    end, entry = monotonic() + seconds, Path("/proc", str(process))
    while entry.exists() and monotonic() < end:
        sleep(0.1)
    return not entry.exists()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of temporary files, which is empty, also in processes that start now."""
    path = Path(tempfile.mkdtemp(prefix="t"))  # the name of a socket has 107 bytes at most
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    monkeypatch.setenv("TMPDIR", str(path))
    yield path
    assert all(map(ends, server_processes()))
    path.rmdir()  # nothing is left in it


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return BuildOptions(template_cache=tmp_path_factory.mktemp("cache"))


@pytest.fixture
def jobs(cache, tmp_path):
    return [ExportJob(bert, tmp_path / bert.name, check=False, build=cache) for bert in save_berts(tmp_path / "m", 3)]


@pytest.mark.parametrize("executors", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_servers_and_their_sockets_end_with_the_batch_and_the_executor_stays(executors, folder, jobs):
    options = {"mp_context": get_context("spawn")} if executors is ProcessPoolExecutor else {}
    servers = set()
    with executors(2, **options) as executor:
        result = export_many(jobs, executor=executor, on_event=lambda _: servers.update(server_processes()))
        assert not result.failed, result
        assert 1 <= len(servers) <= 2
        assert all(map(ends, servers))


def test_a_server_that_was_killed_is_replaced(folder, jobs):
    killed = kill_first(server_processes)
    with ThreadPoolExecutor(1) as executor:
        result = export_many(jobs, executor=executor)
    assert killed
    assert not result.failed, result
    assert sum(job.attempts for job in result.jobs) == 4


def test_a_server_that_was_killed_between_two_jobs_costs_no_attempt(folder, jobs):
    def kill(event):
        if (event.status, event.completed) == ("exported", 1):
            [server] = server_processes()
            os.kill(server, signal.SIGKILL)
            assert ends(server)

    with ThreadPoolExecutor(1) as executor:
        result = export_many(jobs, executor=executor, workers=1, on_event=kill)
    assert [job.attempts for job in result.jobs] == [1, 1, 1], result


def test_a_job_whose_result_was_lost_replaces_its_files(folder, jobs):
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


def test_a_server_ends_with_the_process_that_started_it(folder, jobs):
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(run_job, jobs[0], JobLimits(), "batch").result().status == "exported"
        [socket] = (folder / "batch").iterdir()
        assert socket.name == str(*pool._processes)
        os.kill(int(socket.name), signal.SIGKILL)
        end = monotonic() + 10
        while socket.exists() and monotonic() < end:
            sleep(0.1)
        assert not socket.exists()
    (folder / "batch").rmdir()


def test_a_folder_of_another_user_is_refused(folder, jobs, monkeypatch):
    with ThreadPoolExecutor(1) as executor:
        monkeypatch.setattr(os, "getuid", lambda: -1)
        result = export_many(jobs[:1], executor=executor, retries=0)
    assert result.jobs[0].status == "lost"
    assert "belongs to another user" in result.jobs[0].error

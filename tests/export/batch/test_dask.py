"""Many exports on a cluster of dask: two worker processes on this machine, which are killed."""

import os
import signal
from pathlib import Path
from time import sleep

import pytest
from distributed import Client, LocalCluster
from fine_tunes import difference_from_pytorch, save_berts

from onnxfn import BuildOptions, ExportRequest, export_many


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

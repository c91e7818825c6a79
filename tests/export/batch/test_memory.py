"""The memory that a job needs, and that jobs which need too much together do not run at a time."""

import shutil
from pathlib import Path

import huggingface_hub
import pytest
from attrs import evolve
from fine_tunes import save_berts, save_llamas
from hypothesis import given
from hypothesis import strategies as st

from onnxfn import BuildOptions, ExportRequest, batch_preview, export_many
from onnxfn.export.batch.many import Task, next_task
from onnxfn.export.batch.memory import StoredWeights, memory_need, stored_weights

GB = 10**9
EIGHT_BILLION = StoredWeights(16_060_522_496, 8_030_261_248, 128256 * 4096)
"""The weights of Llama 8B in bfloat16."""


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return [*save_berts(folder, 1), *save_llamas(folder, 1)]


def test_a_check_needs_memory_and_one_by_sections_less_than_one_of_the_whole(checkpoints):
    for stored in (EIGHT_BILLION, *map(stored_weights, checkpoints)):
        unchecked, sections, whole = (memory_need(stored, check) for check in ("none", "sections", "whole"))
        assert stored.bytes < unchecked < sections < whole
        assert whole - sections == 4 * (stored.elements - stored.largest)


def test_weights_that_are_copied_into_memory_count_in_float32(checkpoints, tmp_path):
    stored = stored_weights(checkpoints[0])
    assert stored.bytes == 4 * stored.elements
    (tmp_path / "pytorch_model.bin").write_bytes(bytes(400))
    assert stored_weights(tmp_path) == StoredWeights(400, 100, 0)


def test_a_name_on_the_hub_needs_what_its_folder_needs(checkpoints, tmp_path, monkeypatch):
    repository = tmp_path / "models--someone--bert"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("a" * 40)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    cached = Path(shutil.copytree(checkpoints[0], repository / "snapshots" / ("a" * 40)))

    def need(name):
        return batch_preview([ExportRequest(name, "out")]).jobs[0].memory_bytes

    assert need("someone/bert") == need(checkpoints[0]) == need(cached)
    (cached / "model.safetensors.index.json").write_text('{"weight_map": {"a": "model-00002-of-00002.safetensors"}}')
    assert need("someone/bert") == 0  # one of the files is missing
    (cached / "model.safetensors").unlink()
    assert need("someone/bert") == 0  # all are


def test_a_job_whose_need_is_not_known_runs_alone():
    unknown, small = Task(0, ExportRequest("a", "x"), memory_need(None, "none")), Task(1, ExportRequest("b", "y"), 1)
    assert next_task([unknown, small], [], 2**60) is small
    assert next_task([unknown], [], 2**60) is unknown
    assert next_task([unknown], [small], 2**60) is next_task([small], [unknown], 2**60) is None


def statuses(jobs, memory):
    events = []
    result = export_many(jobs, workers=2, memory=memory, on_event=events.append)
    assert not result.failed, result
    return [event.status for event in events]


def test_two_jobs_that_need_more_than_the_memory_never_run_at_a_time(checkpoints, tmp_path):
    build = BuildOptions(template_cache=tmp_path / "cache")
    jobs = [ExportRequest(path, tmp_path / "a" / path.name, check=False, build=build) for path in checkpoints]
    need = max(memory_need(stored_weights(path), "none") for path in checkpoints)
    assert statuses(jobs, int(1.9 * need)) == ["start", "exported"] * 2
    assert statuses([evolve(job, overwrite=True) for job in jobs], 2 * need)[:2] == ["start", "start"]


def test_two_jobs_of_8_billion_parameters_do_not_meet_in_24_gigabytes():
    need = memory_need(EIGHT_BILLION, "none")
    jobs = [Task(number, ExportRequest(str(number), str(number)), bytes=need) for number in range(2)]
    assert need < 24 * GB < 2 * need
    assert next_task(jobs, [], 24 * GB) is jobs[0]
    assert next_task(jobs[1:], jobs[:1], 24 * GB) is None


TASKS = st.lists(st.integers(0, 10), min_size=1, max_size=8).map(
    lambda sizes: [Task(number, ExportRequest(str(number), str(number)), size) for number, size in enumerate(sizes)]
)


@given(TASKS, st.integers(1, 10), st.integers(1, 4), st.randoms())
def test_all_jobs_run_and_those_that_run_at_a_time_fit_into_the_memory(tasks, memory, workers, random):
    waiting, running, ended = list(tasks), [], []
    while waiting or running:
        while len(running) < workers and (task := next_task(waiting, running, memory)):
            waiting.remove(task)
            running.append(task)
        assert running, "jobs wait, and none runs"
        assert len(running) == 1 or sum(task.bytes for task in running) <= memory
        ended.append(running.pop(random.randrange(len(running))))
    assert sorted(task.number for task in ended) == list(range(len(tasks)))


@given(TASKS)
def test_without_a_limit_jobs_start_in_their_order(tasks):
    assert next_task(tasks, tasks[1:], None) is tasks[0]

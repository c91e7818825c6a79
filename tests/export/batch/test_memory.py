"""The memory that a job needs, and that jobs which need too much together do not run at a time."""

import pytest
from attrs import evolve
from fine_tunes import save_berts, save_llamas

from onnxfn import BuildOptions, ExportJob, export_many
from onnxfn.export.batch.memory import StoredWeights, memory_need, stored_weights
from onnxfn.export.batch.schedule import Task, next_task

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


def statuses(jobs, memory):
    events = []
    result = export_many(jobs, workers=2, memory=memory, on_event=events.append)
    assert not result.failed, result
    return [event.status for event in events]


def test_two_jobs_that_need_more_than_the_memory_never_run_at_a_time(checkpoints, tmp_path):
    build = BuildOptions(template_cache=tmp_path / "cache")
    jobs = [ExportJob(path, tmp_path / "a" / path.name, check=False, build=build) for path in checkpoints]
    need = max(memory_need(stored_weights(path), "none") for path in checkpoints)
    assert statuses(jobs, int(1.9 * need)) == ["start", "exported"] * 2
    again = [evolve(job, overwrite=True) for job in jobs]
    assert statuses(again, 2 * need)[:2] == ["start", "start"]


def test_two_jobs_of_8_billion_parameters_do_not_meet_in_24_gigabytes():
    need = memory_need(EIGHT_BILLION, "none")
    jobs = [Task(number, ExportJob(str(number), str(number)), bytes=need) for number in range(2)]
    assert need < 24 * GB < 2 * need
    assert next_task(jobs, [], (), 24 * GB) is jobs[0]
    assert next_task(jobs[1:], jobs[:1], (), 24 * GB) is None

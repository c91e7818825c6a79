"""The memory that a job needs, by its plan, and that jobs which need too much together do not run at a time."""

import json
from pathlib import Path

import pytest
from attrs import evolve
from fine_tunes import save_berts, save_llamas

from onnxfn import BuildOptions, ExportJob, export_many
from onnxfn.export.batch.memory import IMPORTS_BYTES, StoredWeights, memory_bound, planned_memory, stored_weights
from onnxfn.export.batch.schedule import Task, next_task

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"
GB = 10**9
MODELS = {
    "llama-1b-bf16": StoredWeights(2_200_096_768, 1_100_048_384, 32000 * 2048),
    "llama-8b": StoredWeights(16_060_522_496, 8_030_261_248, 128256 * 4096),
}
"""The models of benchmarks/large.py."""


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return [*save_berts(folder, 1), *save_llamas(folder, 1)]


def needs(checkpoint, **options):
    return planned_memory(ExportJob(checkpoint, "out", **options), checkpoint)


def test_no_measured_export_used_more_than_its_bound():
    rows = json.loads((RESULTS / "large.json").read_text())["rows"]
    own = [row for row in rows if row["exporter"].startswith("onnxfn") and row["model"] in MODELS]
    assert len(own) >= 8
    for row in own:
        check = "none" if row["exporter"].endswith("unchecked") else "whole"
        used = row["above imports GB"] * GB + IMPORTS_BYTES
        assert used <= memory_bound(MODELS[row["model"]], check), row
        # Mapped pages count in a bound, anonymous memory alone was measured.
        assert used <= memory_bound(evolve(MODELS[row["model"]], bytes=0, elements=0), check), row


def test_a_plan_needs_what_its_dtype_and_its_check_say(checkpoints):
    for checkpoint in checkpoints:
        elements = stored_weights(checkpoint).elements
        float32, float16 = needs(checkpoint), needs(checkpoint, dtypes=("float16",))
        assert 0.9 * 2 * elements <= float32 - float16 <= 2 * elements
        assert needs(checkpoint, dtypes=("float32", "float16")) == float32
        assert needs(checkpoint, check=False) < float16
        assert float32 <= memory_bound(stored_weights(checkpoint), "whole")


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
    need = max(needs(path, check=False) for path in checkpoints)
    assert statuses(jobs, int(1.9 * need)) == ["start", "exported"] * 2
    again = [evolve(job, overwrite=True) for job in jobs]
    assert statuses(again, 2 * need)[:2] == ["start", "start"]


def test_two_jobs_of_8_billion_parameters_do_not_meet_in_24_gigabytes():
    need = memory_bound(MODELS["llama-8b"], "none")
    jobs = [Task(number, ExportJob(str(number), str(number)), bytes=need) for number in range(2)]
    assert need < 24 * GB < 2 * need
    assert next_task(jobs, [], (), 24 * GB) is jobs[0]
    assert next_task(jobs[1:], jobs[:1], (), 24 * GB) is None

"""The memory that a job needs, by its plan, and that jobs which need too much together do not run at a time."""

import json
from pathlib import Path

import pytest
import torch
from attrs import evolve
from fine_tunes import save_berts, save_llamas
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaConfig, LlamaForCausalLM

from onnxfn import BuildOptions, ExportJob, export_many, plan, spec_for, with_dtypes
from onnxfn.export.batch.memory import (
    IMPORTS_BYTES,
    StoredWeights,
    memory_bound,
    memory_need,
    planned_memory,
    stored_weights,
)
from onnxfn.export.batch.schedule import Task, next_task
from onnxfn.export.batch.section_memory import SectionSizes, section_memory, section_sizes

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"
GB = 10**9
MODELS = {
    "llama-1b-bf16": StoredWeights(2_200_096_768, 1_100_048_384, 32000 * 2048),
    "llama-8b": StoredWeights(16_060_522_496, 8_030_261_248, 128256 * 4096),
}
"""The models of benchmarks/large.py."""

CHECKS = {"unchecked": "none", "sections": "sections"}
"""The last word of an exporter in benchmarks/large.py -> its check, if that is not of the whole."""


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
        check = CHECKS.get(row["exporter"].rpartition(" ")[2], "whole")
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


def test_a_check_by_sections_needs_less_than_one_of_the_whole(checkpoints):
    for checkpoint in checkpoints:
        assert needs(checkpoint, check=False) <= needs(checkpoint, check="sections") < needs(checkpoint)
        assert needs(checkpoint, check="sections") <= memory_bound(stored_weights(checkpoint), "sections")


def test_a_check_by_sections_of_8_billion_parameters_needs_what_was_measured_and_less_than_3_gigabytes():
    config = LlamaConfig(
        vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_key_value_heads=8
    )
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    spec = with_dtypes(spec_for(config, "text-generation-with-past"), float="float16")
    planned = plan(spec, config)
    stored = evolve(MODELS["llama-8b"], bytes=0)
    needed = memory_need(planned, stored, "sections", [section_sizes(part, model) for part in planned.parts])
    assert needed < 3 * GB
    rows = json.loads((RESULTS / "large.json").read_text())["rows"]
    for row in rows:
        if (row["model"], row["exporter"]) == ("llama-8b", "onnxfn float16 by sections"):
            assert 0.5 * needed < row["anonymous GB"] * GB <= needed, row


SIZES = st.builds(SectionSizes, st.lists(st.integers(1, 99), min_size=1).map(tuple), *[st.integers(1, 99)] * 4)


@given(SIZES, st.sampled_from(["layers", "width", "outputs", "converted"]))
def test_more_of_anything_needs_more_memory(sizes, name):
    assert section_memory(evolve(sizes, **{name: getattr(sizes, name) + 1})) > section_memory(sizes)
    assert section_memory(evolve(sizes, tokens=(*sizes.tokens, 1))) > section_memory(sizes)


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

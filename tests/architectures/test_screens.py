"""What a person sees of a decoder fits on a screen, however many layers its default configuration has."""

import pytest
from transformers import CONFIG_MAPPING

import onnxfn
from onnxfn.specs.conditions import Condition
from onnxfn.specs.stored.reports import Difference, Exported, Fusion, GraphSize, Report

SCREEN = 40
"""Lines of a terminal, and rows of a table in a notebook."""

SAMPLE = (
    *("bloom", "deepseek_v3", "gemma2", "jamba", "lfm2", "llama", "mamba2", "musicgen", "qwen3_next", "t5", "whisper"),
)
"""The model types of the default run; the others are in the sweep."""


def decoders():
    """The model types that have a task with a cache, and one such task of each."""
    for model_type, row in onnxfn.ARCHITECTURES.items():
        tasks = [task.name for task in row.tasks if task.name.endswith("with-past")]
        # The default configuration of some lacks a value, or transformers does not have them.
        if tasks and model_type not in ("bamba", "internlm2", "lfm2_moe"):
            task = next((task for task in tasks if task.startswith("text-generation")), tasks[0])
            marks = () if model_type in SAMPLE else (pytest.mark.sweep,)
            yield pytest.param(model_type, task, marks=marks, id=model_type)


def result_of(plan):
    """A result of an export of a plan: each output in twelve cases, several files, stages and versions."""
    names = [(part.name, output) for part in plan.parts for output in part.outputs]
    errors = [Difference(*name, ((2, 8),), 1e-7, 1e-7, 1e-5, "one", passed=True) for name in names]
    cases = [f"case {number} (batch_size={number}, sequence_length=7)" for number in range(12)]
    files = [f"out/{name}" for name in (*plan.files, "config.json", "generation_config.json", "report.json")]
    sizes = [GraphSize(part.name, 10**9, 3000, [("logits", "float32[batch_size, 2]")]) for part in plan.parts]
    facts = {"repeats": ["30 layers of model.layers from 4"], "versions": [("onnxfn", "0.1.0"), ("torch", "2.13.0")]}
    facts["limits"] = [Condition("sequence_length <= 96"), Condition("batch_size <= 9")]
    fused = [Fusion(name, 30) for name in ("Attention", "RMSNormalization", "RotaryEmbedding")]
    facts["fusions"] = [("model", tuple(fused))]
    seconds = [(stage, 0.1) for stage in ("plan", "capture", "passes", "write", "check", "complete")]
    return Exported("out", files, plan, 18, seconds, Report(errors, cases), graphs=sizes, bytes=10**9, **facts)


@pytest.mark.parametrize(("model_type", "task"), list(decoders()))
def test_a_decoder_with_all_its_layers_fits_on_a_screen(model_type, task):
    config = CONFIG_MAPPING[model_type]()
    spec = onnxfn.spec_for(model_type, task)
    plan = onnxfn.plan(spec, config)
    result = result_of(plan)
    for record in (spec, plan, plan.parts[0], plan.parts[0].spec, result.report, result):
        assert len(str(record).splitlines()) <= SCREEN
        assert len(repr(record)) <= 300

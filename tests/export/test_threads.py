"""Other threads call the exported model, another model and the standard streams while exports run."""

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle

import pytest
import tiny
import torch
from exported_folders import content

import onnxfn

SPEC = onnxfn.spec_for("llama", "text-generation-with-past")
IDS = torch.arange(1, 41).reshape(2, 20)
STREAM_ATTRIBUTES = ("encoding", "errors", "closed", "newlines", "line_buffering", "buffer", "name", "mode")


def llama(scale=1.0):
    model = tiny.model("llama", "AutoModelForCausalLM", num_hidden_layers=8, attention_dropout=0.5)
    model.model.embed_tokens.weight.data *= scale
    return model


def logits(model):
    with torch.no_grad():
        return model(input_ids=IDS).logits


def repeated_while(export, *calls):
    """The result of `export()`, and the results of each call, which another thread repeats until the export ends."""
    results, ended = [[] for _ in calls], threading.Event()

    def repeat():
        for call, into in cycle(list(zip(calls, results, strict=True))):
            if ended.is_set():
                return
            into.append(call())
            time.sleep(0.002)  # else the export, which shares the interpreter, takes many times as long

    with ThreadPoolExecutor(1) as pool:
        repeating = pool.submit(repeat)
        try:
            exported = export()
        finally:
            ended.set()
        repeating.result()
    return exported, *results


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone") / "out"
    onnxfn.export(SPEC, llama(), folder)
    return content(folder)


def test_models_that_are_called_and_streams_that_are_used_meanwhile_are_right(alone, tmp_path, monkeypatch):
    model, other = llama(), llama(scale=2.0)
    expected, expected_other = logits(model), logits(other)
    with (tmp_path / "lines.txt").open("w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        exported, called, called_other, attributes, lines = repeated_while(
            lambda: onnxfn.export(SPEC, model, tmp_path / "out"),
            lambda: logits(model),
            lambda: logits(other),
            lambda: (
                [getattr(sys.stdout, name) for name in STREAM_ATTRIBUTES],
                sys.stdout.fileno(),
                sys.stdout.isatty(),
            ),
            lambda: sys.stdout.writelines(["a line\n"]),
        )
        at_end = [getattr(stream, name) for name in STREAM_ATTRIBUTES], stream.fileno(), stream.isatty()
    assert len(called) > 2
    assert all(torch.allclose(result, expected, atol=1e-5) for result in called)
    assert all(torch.allclose(result, expected_other, atol=1e-5) for result in called_other)
    assert all(seen == at_end for seen in attributes)
    assert (tmp_path / "lines.txt").read_text() == "a line\n" * len(lines)
    assert exported.report.passed
    assert content(tmp_path / "out") == alone


def test_a_model_in_training_mode_stays_in_it_meanwhile_and_its_files_are_the_same(alone, tmp_path):
    """Dropout would show in the check: PyTorch's outputs come from a copy in evaluation mode."""
    model = llama().train()
    exported, modes = repeated_while(
        lambda: onnxfn.export(SPEC, model, tmp_path / "out"),
        lambda: {module.training for module in model.modules()} | {len(model.model.layers) == 8},
    )
    assert exported.report.passed
    assert {frozenset(mode) for mode in modes} == {frozenset([True])}
    assert content(tmp_path / "out") == alone


def test_a_custom_operator_and_a_patched_function_are_right_in_another_thread_meanwhile(tmp_path):
    """A mixture of experts: the export replaces the loop over experts; torch would annotate its trace."""
    model = tiny.model("mixtral", "AutoModelForCausalLM")
    spec, expected = onnxfn.spec_for("mixtral", "text-generation"), logits(model)
    exported, called = repeated_while(lambda: onnxfn.export(spec, model, tmp_path / "out"), lambda: logits(model))
    assert exported.report.passed
    assert len(called) > 2
    assert all(torch.allclose(result, expected, atol=1e-5) for result in called)


def test_two_exports_at_once_write_what_each_writes_alone(tmp_path):
    onnxfn.export(SPEC, llama(), tmp_path / "alone", check=False)
    alone = content(tmp_path / "alone")
    models = {"first": llama(), "second": llama(), "other": llama(scale=2.0)}
    with ThreadPoolExecutor(len(models)) as pool:
        exports = {
            name: pool.submit(onnxfn.export, SPEC, model, tmp_path / name, check=False)
            for name, model in models.items()
        }
    assert all(not export.exception() for export in exports.values())
    first, second = content(tmp_path / "first"), content(tmp_path / "second")
    assert first == second
    assert first == alone
    assert onnxfn.validate(SPEC, models["other"], tmp_path / "other").passed


def test_nothing_is_printed_when_a_trace_fails(capfd):
    """torch prints the graph so far when a model branches on the value of a tensor."""
    branching = torch.nn.Linear(4, 2)
    branching.forward = lambda features: features if features.sum() > 0 else -features
    spec = onnxfn.derived(branching, sample={"features": torch.ones(3, 4)})
    with pytest.raises(
        onnxfn.CaptureFailed, match=r"test_threads.py:\d+ .*Could not guard on data-dependent expression"
    ):
        onnxfn.export(spec, branching, "never_written.onnx")
    assert capfd.readouterr() == ("", "")

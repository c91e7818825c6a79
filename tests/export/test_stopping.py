"""Watching and stopping an export: events come all the time; what the listener raises is heard and leaves nothing."""

import io
import random
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import tiny
import torch
from command_line import Terminal
from refusals import refusal
from torch.utils._python_dispatch import _get_current_dispatch_mode
from transformers import BertConfig, BertModel

import onnxfn
from onnxfn.export.run import events as events_module
from onnxfn.export.run.events import ignore, limited, stage_timer
from onnxfn.models.dtypes import in_dtype
from onnxfn.models.torch_modes import quiet, ticking_operators
from onnxfn.run import sessions

BERT = onnxfn.spec_for("bert", "fill-mask")
LLAMA = onnxfn.spec_for("llama", "text-generation-with-past")
STAGES = ("plan", "capture", "passes", "write", "check", "complete")


class HeardError(Exception):
    """Raised by a listener at a moment of the test."""


def state(model):
    attributes = [sorted(map(str, vars(module))) for module in model.modules()]
    hooks = [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()]
    modes = [module.training for module in model.modules()]
    versions = [(name, tensor.data_ptr(), tensor._version) for name, tensor in model.state_dict().items()]
    return attributes, hooks, modes, versions, str(getattr(model, "config", ""))


def stops_after(moment, clock=time.perf_counter):
    """A listener that raises at the first event after a moment of a clock, and the list of when it did."""
    raised = []

    def listen(event):
        if clock() >= moment:
            raised.append((clock(), event))
            raise HeardError(event)

    return listen, raised


def test_a_listener_that_raises_at_any_event_stops_the_export_and_leaves_nothing(llama, tmp_path, temporary_files):
    moments = []
    before = state(llama)
    onnxfn.export(
        LLAMA,
        llama,
        tmp_path / "out",
        on_event=lambda event: moments.append((event.stage, event.status)) if event.status != "progress" else None,
    )
    assert len(moments) > 10
    for number, moment in enumerate(dict.fromkeys(moments)):

        def listen(event, moment=moment):
            if (event.stage, event.status) == moment:
                raise HeardError

        with pytest.raises(HeardError):
            onnxfn.export(LLAMA, llama, tmp_path / "never" if number % 2 else None, on_event=listen)
        assert sorted(entry.name for entry in tmp_path.iterdir()) == ["out", "temporary"]
        assert [*temporary_files.iterdir()] == []
        assert state(llama) == before


@pytest.mark.parametrize(
    "error", [KeyError("a"), OSError(28, "No space left"), onnxfn.CheckFailed("mine"), KeyboardInterrupt()]
)
@pytest.mark.parametrize("stage", ["capture", "check"])
def test_what_the_listener_raises_comes_out_unchanged(error, stage, tmp_path):
    """A KeyError inside a capture, or a failed check, is otherwise a reason to trace all layers."""
    events = []

    def listen(event):
        events.append(event)
        if event.stage == stage and event.status == "end":
            raise error

    with pytest.raises(type(error)) as caught:
        onnxfn.export(BERT, tiny.model("bert", "AutoModelForMaskedLM"), tmp_path / "out", on_event=listen)
    assert caught.value is error
    assert error.args == type(error)(*error.args).args
    assert (events[-1].stage, events[-1].status) == (stage, "failure")
    assert [*tmp_path.iterdir()] == []


def test_a_timeout_is_an_error_in_a_line(bert, tmp_path):
    message = refusal(onnxfn.TimedOut, onnxfn.export, BERT, bert, tmp_path / "out", timeout=0)
    assert message == "the export takes over 0 s and was stopped at plan; pass a longer timeout"
    message = refusal(onnxfn.InvalidSpec, onnxfn.export, BERT, bert, tmp_path / "out", timeout=-1)
    assert message == "timeout is -1 s; pass 0 or more seconds, or None for no limit"
    assert [*tmp_path.iterdir()] == []
    onnxfn.export(BERT, bert, tmp_path / "out", timeout=600.0)


def test_a_check_has_a_timeout_and_events_of_all_its_stages(tmp_path):
    model, events = tiny.model("bert", "AutoModelForMaskedLM"), []
    exported = onnxfn.export(BERT, model, tmp_path / "out", check=False)
    message = refusal(onnxfn.TimedOut, onnxfn.validate, BERT, model, exported, timeout=0)
    assert message == "the check takes over 0 s and was stopped at plan; pass a longer timeout"
    assert onnxfn.validate(BERT, model, exported, on_event=events.append, timeout=600.0).passed
    assert list(dict.fromkeys(event.stage for event in events)) == ["plan", "check"]

    def wait_in_the_check(event):
        if event.stage == "check" and event.status == "start":
            time.sleep(2.0)

    message = refusal(onnxfn.TimedOut, onnxfn.validate, BERT, model, exported, on_event=wait_in_the_check, timeout=2.0)
    assert message.startswith("the check takes over 2 s and was stopped at ")
    assert (tmp_path / "out" / "model.onnx").is_file()


def test_the_timeout_of_a_pipeline_is_for_all_its_parts(tmp_path, monkeypatch):
    """The clock stands still but after the first part."""
    clock, stages, parts = [0.0], [], []
    monkeypatch.setattr(events_module, "perf_counter", lambda: clock[0])
    encoders = {name: tiny.model("clip_text_model", "CLIPTextModel") for name in ("text_encoder", "text_encoder_2")}
    pipeline = SimpleNamespace(components=encoders, config={}, to_json_string=lambda: "{}")

    def listen(event):
        stages.append((event.stage, event.status))
        parts.append(event.part)
        clock[0] += 100.0 * (stages[-1] == ("complete", "end"))

    message = refusal(onnxfn.TimedOut, onnxfn.export_pipeline, pipeline, tmp_path / "out", on_event=listen, timeout=60)
    assert message == "the export takes over 60 s and was stopped at plan text_encoder_2; pass a longer timeout"
    assert set(parts) == {"text_encoder", "text_encoder/model", "text_encoder_2"}
    assert stages[-2:] == [("plan", "start"), ("plan", "failure")]
    assert stages.count(("capture", "start")) == 1
    assert [*tmp_path.iterdir()] == []
    assert onnxfn.export_pipeline(pipeline, tmp_path / "out", on_event=listen, timeout=1000).keys() == encoders.keys()


@pytest.mark.parametrize(
    ("options", "is_watched"), [({"on_event": ignore}, False), ({"on_event": repr}, True), ({"timeout": 60}, True)]
)
def test_torch_is_watched_only_for_a_listener_or_a_timeout(options, is_watched):
    """A mode of torch makes each operator slower."""
    with (
        stage_timer(limited(**{"on_event": ignore, "timeout": None} | options)) as (timed, _),
        timed("check", "") as tick,
        ticking_operators(tick),
    ):
        assert (_get_current_dispatch_mode() is not None) == is_watched


def test_events_of_a_stage_come_in_order_with_rising_seconds_and_amounts(tmp_path, monkeypatch):
    events = []
    monkeypatch.setattr(events_module, "PERIOD", 0.0)
    with stage_timer(events.append) as (timed, seconds), timed("check", "model") as tick:
        for amounts in [(0, 2, 0.5), *[()] * 3, (0.5, 2, 1.5), *[()] * 5, (1.5, 2)]:
            tick(*amounts)
    assert [event.status for event in events] == ["start", *["progress"] * 11, "end"]
    assert [event.completed for event in events] == [0, 0, 0, 0, 0, 0.5, 0.75, 1, 1.25, 1.5, 1.5, 1.5, 2]
    assert [event.remaining is None for event in events] == [True] * 5 + [False] * 8
    assert events[5].remaining == 3 * events[5].seconds
    assert sorted(event.seconds for event in events) == [event.seconds for event in events]
    assert seconds["check"] >= events[-1].seconds
    threads = set()
    onnxfn.export(
        BERT,
        tiny.model("bert", "AutoModelForMaskedLM"),
        tmp_path / "out",
        on_event=lambda event: (threads.add(threading.get_ident()), events.append(event)),
    )
    assert threads == {threading.get_ident()}
    ends = {event.stage: event for event in events if (event.status == "end" and event.part != "model") or event.total}
    assert ends["write"].completed == ends["write"].total > 0
    assert ends["check"].completed == ends["check"].total > 3


@contextmanager
def meanwhile(work):
    """Calls `work(hold)` in another thread, which `hold` keeps from ending until this context ends."""
    entered, ended = threading.Event(), threading.Event()

    def hold():
        entered.set()
        assert ended.wait(60)

    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work, hold)
        assert entered.wait(60)
        try:
            yield
        finally:
            ended.set()
        working.result()


def exports_to(path):
    return lambda hold: onnxfn.export(
        BERT,
        tiny.model("bert", "AutoModelForMaskedLM"),
        path,
        on_event=lambda event: hold() if event.stage == "passes" else None,
    )


def test_an_export_that_waits_for_the_trace_of_another_says_so_and_can_be_stopped(tmp_path):
    events, options = [], {"timeout": 1.0, "check": False}
    with meanwhile(exports_to(tmp_path / "first")):
        model, start = tiny.model("bert", "AutoModelForMaskedLM"), time.perf_counter()
        with pytest.raises(onnxfn.TimedOut, match="at wait model"):
            onnxfn.export(BERT, model, tmp_path / "second", on_event=events.append, **options)
        assert time.perf_counter() - start < 3
    assert events[-1].stage == "wait"
    assert onnxfn.verify(tmp_path / "first").passed


def test_a_check_that_waits_for_the_trace_of_another_can_be_stopped(bert, tmp_path):
    exported = onnxfn.export(BERT, bert, tmp_path / "out", check=False)
    with meanwhile(exports_to(tmp_path / "first")):
        start = time.perf_counter()
        listen, raised = stops_after(start + 1)
        with pytest.raises(HeardError):
            onnxfn.validate(BERT, bert, exported, on_event=listen)
        assert 1 < raised[0][0] - start < 2
    assert (tmp_path / "first" / "model.onnx").is_file()


def test_an_export_that_is_stopped_does_not_wait_for_onnxruntime_to_load_a_file(tmp_path, monkeypatch):
    """ONNX Runtime looks rarely whether it is to stop: a load of 1.3 GB ended up to 2.3 s later."""
    may_end, raised = threading.Event(), []

    def listen(event):
        if (event.stage, event.status) == ("check", "progress"):
            raised.append(time.perf_counter())
            raise HeardError

    monkeypatch.setattr(sessions, "open_session", lambda *_, **__: may_end.wait(60))
    try:
        with pytest.raises(HeardError):
            onnxfn.export(BERT, tiny.model("bert", "AutoModelForMaskedLM"), tmp_path / "out", on_event=listen)
        assert time.perf_counter() - raised[0] < 1.0
        assert [*tmp_path.iterdir()] == []
    finally:
        may_end.set()


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_a_conversion_of_weights_that_waits_for_a_trace_can_be_stopped(dtype):
    """An export converts its weights to float16, and a check to float64."""

    def trace(hold):
        with quiet():
            hold()

    with meanwhile(trace):
        start = time.perf_counter()
        with (
            pytest.raises(onnxfn.TimedOut),
            stage_timer(limited(ignore, 1.0)) as (timed, _),
            timed("convert", "model") as tick,
            ticking_operators(tick),
        ):
            in_dtype(torch.nn.Linear(4, 2), dtype)
        assert 1 < time.perf_counter() - start < 2


def test_a_conversion_of_weights_is_a_stage(tmp_path):
    events = []
    half = onnxfn.with_dtypes(BERT, float="float16")
    onnxfn.export(half, tiny.model("bert", "AutoModelForMaskedLM"), check=False, on_event=events.append)
    assert next(event for event in events if event.stage not in ("plan", "convert")).stage == "capture"
    assert [event.status for event in events if event.stage == "convert"] == ["start", "end"]


def test_two_exports_to_a_path_at_once_are_one_export_and_one_refusal(bert, tmp_path):
    both = threading.Barrier(2)

    def meet(event):
        if event.stage == "complete" and event.status == "start":
            both.wait(60)

    with ThreadPoolExecutor(2) as pool:
        exports = [pool.submit(onnxfn.export, BERT, bert, tmp_path / "out", on_event=meet) for _ in range(2)]
    errors = [export.exception() for export in exports if export.exception()]
    assert [type(error) for error in errors] == [onnxfn.OutputExists]
    assert str(errors[0]).startswith(f"{tmp_path / 'out'} exists")
    assert onnxfn.verify(tmp_path / "out").passed


def test_the_bar_shows_each_stage_and_what_failed(monkeypatch):
    for name in ("NO_COLOR", "TERM", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for file in (io.StringIO(), Terminal()):
        show = onnxfn.progress(file)
        for event in (
            onnxfn.Event("write", "model"),
            onnxfn.Event("copy", "model.safetensors"),
            onnxfn.Event("copy", "model.safetensors", 0.5, "progress", 1_000_000, 4_000_000),
            onnxfn.Event("copy", "model.safetensors", 1.0, "end", 4_000_000, 4_000_000),
            onnxfn.Event("write", "model", 2.0, "end"),
            onnxfn.Event("check", "model"),
            onnxfn.Event("check", "model", 3.0, "failure", 2, 9),
        ):
            show(event)
        text = file.getvalue()
        assert "copy model.safetensors" in text
        assert "4.0/4.0 MB" in text
        assert "2/9 cases  3.0 s  failed" in text
        assert ("1.0/4.0 MB" in text) == file.isatty()


def large_bert(layers, hidden):
    """A random BertModel. It has no pooler, whose output of few elements asks for float64 runs."""
    torch.manual_seed(0)
    config = BertConfig(
        num_hidden_layers=layers,
        hidden_size=hidden,
        num_attention_heads=hidden // 64,
        intermediate_size=4 * hidden,
        initializer_range=0.05,
    )
    return BertModel(config, add_pooling_layer=False).eval()


def longest_until_heard(model, moments, folder, clock=time.perf_counter):
    """The longest time from a moment at which an export is to stop until its exception is out, and that moment."""
    spec = onnxfn.compose(onnxfn.text_encoder, onnxfn.bert_inputs)
    start, gaps, last = clock(), [], [clock(), "start"]

    def listen(event):
        now = clock()
        gaps.append((now - last[0], last[1], f"{event.stage} {event.status}"))
        last[:] = now, f"{event.stage} {event.status}"

    onnxfn.export(spec, model, folder / "whole", on_event=listen)
    duration = clock() - start
    before, waits = state(model), []
    for fraction in moments:
        moment = clock() + fraction * duration
        listen, raised = stops_after(moment, clock)
        try:
            onnxfn.export(spec, model, folder / "out", on_event=listen)
        except HeardError:
            waits.append((clock() - moment, f"{raised[0][1].stage} {raised[0][1].status}", fraction))
        else:
            shutil.rmtree(folder / "out")
        assert not (folder / "out").exists()
        assert not [entry for entry in folder.iterdir() if entry.name.startswith(".")]
        assert state(model) == before
    return duration, max(gaps), waits


def test_an_export_that_is_stopped_at_random_moments_leaves_nothing(tmp_path):
    moments = random.Random(0).sample(range(1, 500), 6)  # of the first export, which also imports
    moments = [moment / 1000 for moment in moments]
    *_, waits = longest_until_heard(large_bert(2, 128), moments, tmp_path, clock=time.process_time)
    assert len(waits) >= 3
    assert max(waits)[0] < 1.0


@pytest.mark.sweep
def test_an_export_of_335_million_parameters_hears_it_within_a_second(tmp_path):
    moments = [random.Random(number).random() for number in range(100)]
    duration, gap, waits = longest_until_heard(large_bert(24, 1024), moments, tmp_path)
    print(f"{duration:.1f} s, longest silence {gap}, longest until heard {max(waits)}, {len(waits)} stopped")
    assert gap[0] < 1.0
    assert max(waits)[0] < 1.0

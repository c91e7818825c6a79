"""A service that exports on demand, written from README.md and `help` alone: a test for each thing that it needs."""

from __future__ import annotations

import io
import logging
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
import transformers
from transformers import AutoModelForCausalLM, BertConfig, BertForSequenceClassification, LlamaConfig, LlamaForCausalLM

import onnxfn
from onnxfn import compose, gives, sized, spec_for, takes

SIZES = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
READ_SPEC = """
import sqlite3, sys, onnxfn
text, = sqlite3.connect(sys.argv[1]).execute("select spec from specs").fetchone()
print(onnxfn.digest(onnxfn.from_json(text)), "torch" in sys.modules)
"""


def bert():
    return BertForSequenceClassification(BertConfig(**SIZES, initializer_range=0.15)).eval()


def llama():
    return LlamaForCausalLM(LlamaConfig(**SIZES, initializer_range=0.15)).eval()


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return bert()


def even_ids(random, shape):
    """Dummies of this service."""
    return random.integers(0, 49, shape) * 2


def first_states(_, states):
    """A wrong replacement of a method: it leaves a layer out."""
    return states[:, 0]


def test_a_checkpoint_in_bfloat16_is_exported_as_transformers_loads_it(tmp_path):
    llama().to(torch.bfloat16).save_pretrained(tmp_path / "checkpoint")
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "checkpoint")
    spec = onnxfn.with_dtypes(spec_for(loaded, "text-generation-with-past"), float="float32")
    result = onnxfn.export(spec, loaded, tmp_path / "out")
    assert result.report.passed
    assert loaded.dtype == torch.bfloat16
    assert onnxfn.generate(result, [[1, 2, 3]], max_new_tokens=3).shape == (1, 6)


def test_an_own_module_is_exported_by_hand_or_from_a_sample():
    takes_input = takes("input", "batch_size 3", "normal", kind="float")
    by_hand = compose(takes_input, gives("y", "batch_size 5"), sized(batch_size=2))
    assert onnxfn.export(by_hand, torch.nn.Linear(3, 5))(input=np.zeros((4, 3), np.float32))["y"].shape == (4, 5)
    gru = torch.nn.GRU(4, 5, batch_first=True)
    spec = onnxfn.derived(gru, sample={"input": torch.randn(2, 6, 4)}, axes={"input": "batch_size time _"})
    assert onnxfn.export(spec, gru)(input=torch.randn(3, 9, 4))["output_0"].shape == (3, 9, 5)


def test_progress_reaches_the_last_case(model):
    events = []
    onnxfn.export(spec_for(model), model, on_event=events.append)
    shares = [event.completed / event.total for event in events if event.stage == "check" and event.total]
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_two_models_are_exported_at_once_while_a_model_answers_requests(model):
    tokens = torch.tensor([[1, 2, 3]])
    expected = model(tokens).logits
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(onnxfn.export, spec_for(each), each) for each in (model, llama())]
        while not all(future.done() for future in futures):
            torch.testing.assert_close(model(tokens).logits, expected)
    assert all(future.result().report.passed for future in futures)


def test_all_that_goes_wrong_is_one_kind_of_error_with_one_line(model, tmp_path):
    calls = (
        lambda: onnxfn.export(spec_for(model), 3, tmp_path / "out"),
        lambda: onnxfn.export(onnxfn.ExportSpec(), model, tmp_path / "out"),
        lambda: spec_for("brt"),
        lambda: onnxfn.for_task(spec_for("bert"), "texts"),
        lambda: onnxfn.generates("token_ids", even_ids),
    )
    for call in calls:
        with pytest.raises(onnxfn.OnnxfnError, match=r"\A[^\n]+\Z"):
            call()


def test_a_failed_check_or_a_timeout_leaves_nothing(model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "service", sys.modules[__name__])
    pooler = "transformers.models.bert.modeling_bert:BertPooler.forward"
    wrong = compose(spec_for(model), onnxfn.patched(pooler, by="service:first_states", why="a fault"))
    with pytest.raises(onnxfn.CheckFailed) as failed:
        onnxfn.export(wrong, model, tmp_path / "out")
    assert not failed.value.report.passed
    with pytest.raises(onnxfn.TimedOut):
        onnxfn.export(spec_for(model), model, tmp_path / "out", timeout=0.01)
    assert [*tmp_path.iterdir()] == []


def test_a_key_of_a_cache_is_equal_for_equal_exports_alone(model):
    def key(spec, model):
        versions = (onnxfn.__version__, torch.__version__, transformers.__version__)
        return onnxfn.digest(spec), onnxfn.fingerprint(model, weights=True), *versions

    spec = spec_for(model)
    assert key(spec, model) == key(onnxfn.from_json(onnxfn.to_json(spec)), model)
    assert len({key(spec, model), key(spec, bert()), key(onnxfn.with_opset(spec, 20), model)}) == 3


def test_a_spec_in_a_database_is_read_by_another_process_without_torch(model, tmp_path):
    with sqlite3.connect(tmp_path / "specs.db") as database:
        database.execute("create table specs (spec text)")
        database.execute("insert into specs values (?)", (onnxfn.to_json(spec_for(model)),))
    command = [sys.executable, "-c", READ_SPEC, str(tmp_path / "specs.db")]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout.split() == [onnxfn.digest(spec_for(model)), "False"]


def test_an_export_into_memory_prints_nothing_and_leaves_logging_alone(model, capfd):
    before = (logging.getLogger().level, *logging.getLogger().handlers)
    onnxfn.export(spec_for(model), model, file := io.BytesIO())
    assert (logging.getLogger().level, *logging.getLogger().handlers) == before
    assert capfd.readouterr() == ("", "")
    assert len(file.getvalue()) > 10_000


def test_dummies_come_from_a_function_of_the_service(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "service", sys.modules[__name__])
    spec = onnxfn.with_generator(spec_for(model), "input_ids", "service:even_ids")
    assert (onnxfn.dummy_inputs(spec, model.config, "np")["input_ids"] % 2 == 0).all()


def test_a_model_with_adapters_is_for_the_tasks_of_the_model_inside():
    peft = pytest.importorskip("peft", reason="peft is in the extra test")
    adapted = peft.get_peft_model(llama(), peft.LoraConfig(r=4, target_modules=["q_proj"], init_lora_weights=False))
    assert onnxfn.export(spec_for(adapted, "text-generation-with-past"), adapted).report.passed

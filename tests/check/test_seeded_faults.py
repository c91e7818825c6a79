"""The check finds faults that an exporter could make, in the files of 17 tiny models.

    python -m pytest tests/check/test_seeded_faults.py              # a sample: minutes
    python -m pytest tests/check/test_seeded_faults.py -m sweep     # every kind in every model

A fault that the check passes must not change an answer to wider inputs by more than PyTorch's own rounding: then it is
an equivalent mutant. The end of the run shows how many faults were found.
"""

from __future__ import annotations

import fault_models
import numpy as np
import pytest
import verdicts
from graph_edits import initializers
from mutations import KINDS, NAMED, RANDOM
from verdict_counts import EQUIVALENT, FOUND, MISSED, RAW, counts, table
from verdicts import Fault

SAMPLED = ("bert_classifier", "llama")
"""The models of the default run."""

STRUCTURE = tuple(
    kind
    for kind in NAMED
    if kind
    not in {
        "eps",
        "logits shifted",
        "long texts only",
        "not a number",
        "one element",
        "position ids",
        "position table",
        "position_ids ignored",
        "table row unseen",
        "wrong token",
    }
)
"""Kinds that change most answers."""


@pytest.mark.parametrize("name", SAMPLED)
def test_faults_of_structure_are_found(name, assert_found):
    every = verdicts.faults(name, {kind: NAMED[kind] for kind in STRUCTURE})
    results = assert_found(verdicts.spread(every, 1))
    assert sum(result.status == EQUIVALENT for result in results) * 10 < len(results)


# Faults that a check of short random texts misses

SPECIAL = {
    "a window of 48 tokens is one of 39": Fault("mistral_window_48", "sliding window", "model.onnx", "sub_1 -9"),
    "llama's positions end at 30": Fault("llama", "position_ids ignored", "model.onnx", "clipped at 30"),
}


@pytest.mark.parametrize("fault", SPECIAL.values(), ids=SPECIAL)
def test_a_special_fault_is_found(fault, assert_found):
    (result,) = assert_found([fault])
    assert result.status != EQUIVALENT


# The kinds, and the verdicts themselves


def test_there_are_at_least_60_kinds():
    assert len(KINDS) >= 60
    assert set(NAMED).isdisjoint(RANDOM)


@pytest.mark.parametrize("name", SAMPLED)
def test_each_fault_changes_its_file_and_no_other(name):
    originals = {file: model.SerializeToString() for file, model in verdicts.graph_files(name).items()}
    for fault in verdicts.spread(verdicts.faults(name, KINDS), 1):
        changed = {file: model.SerializeToString() for file, model in verdicts.changed_files(fault).items()}
        assert {file for file in changed if changed[file] != originals[file]} == {fault.file}, fault


def test_a_fault_that_the_check_passes_is_missed_if_an_answer_changes(monkeypatch):
    monkeypatch.setattr(verdicts, "validated", lambda tested, _: tested.exported.report)
    noise = Fault("bert_classifier", "weight noise", "model.onnx", "classifier.weight 1.0%")
    result = verdicts.verdict(noise)
    assert result.status == MISSED
    assert result.roundings > 100


def test_a_fault_that_changes_no_answer_is_equivalent(monkeypatch):
    monkeypatch.setattr(verdicts, "validated", lambda tested, _: tested.exported.report)
    (name,) = {name for name in initializers(verdicts.graph_files("bert_classifier")["model.onnx"]) if "val_90" in name}
    weak = Fault("bert_classifier", "mask weak", "model.onnx", f"{name} = -10000")
    assert verdicts.verdict(weak).status == EQUIVALENT


def test_a_change_of_the_interface_that_the_check_passes_is_missed(monkeypatch):
    monkeypatch.setattr(verdicts, "validated", lambda tested, _: tested.exported.report)
    result = verdicts.verdict(Fault("bert_classifier", "axis name", "model.onnx", "logits[0]"))
    assert (result.status, result.roundings) == (MISSED, np.inf)


def test_an_error_that_is_not_documented_is_no_finding(monkeypatch):
    def fail(*_):
        raise IndexError

    monkeypatch.setattr(verdicts, "validated", fail)
    result = verdicts.verdict(Fault("bert_classifier", "axis name", "model.onnx", "logits[0]"))
    assert result.status == RAW


def test_a_table_counts_verdicts():
    rows = counts([("bert", "eps", FOUND), ("t5", "eps", FOUND), ("t5", "rope", MISSED)], 1)
    assert rows == {"eps": {FOUND: 2}, "rope": {MISSED: 1}}
    header, first, second = table(rows)
    assert header.split() == ["found", "does", "not", "run", "equivalent", "missed", "raw", "error"]
    assert first.split() == ["eps", "2", "0", "0", "0", "0"]
    assert second.split() == ["rope", "0", "0", "0", "1", "0"]


def test_every_model_has_a_name_of_its_own_files():
    assert {kind.model_type for kind in fault_models.MODELS.values()} >= {
        "bert",
        "roberta",
        "llama",
        "mistral",
        "gpt2",
        "t5",
        "bart",
        "whisper",
        "vit",
        "clip",
        "mamba",
    }
    assert sum(kind.float_dtype == "float16" for kind in fault_models.MODELS.values()) == 3

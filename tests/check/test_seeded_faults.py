"""The check finds faults that an exporter could make, in the files of 17 tiny models."""

from unittest.mock import Mock

import fault_models
import pytest
import verdicts
from mutations import KINDS, NAMED, RANDOM
from verdict_counts import EQUIVALENT, FOUND, MISSED, NOT_RUN, RAW
from verdicts import Fault

SAMPLED = ("bert_classifier", "llama")
"""The models of the default run."""


@pytest.mark.parametrize("name", SAMPLED)
def test_a_fault_of_each_kind_is_found(name, assert_found):
    results = assert_found(verdicts.spread(verdicts.faults(name), 1))
    assert sum(result.status == EQUIVALENT for result in results) * 10 < len(results)


@pytest.mark.sweep
@pytest.mark.parametrize("name", fault_models.MODELS)
def test_all_named_faults_are_found(name, assert_found):
    every = verdicts.faults(name)
    results = assert_found(verdicts.spread(every, 4), record_as="named faults")
    assert {result.fault.kind for result in results} == {fault.kind for fault in every}


# Faults that a check of short random texts misses: padding, end tokens, long texts, rows that are not looked up

MODEL, ENCODER, DECODER = "model.onnx", "encoder_model.onnx", "decoder_model_merged.onnx"
SPECIAL = {
    "gpt2 classifies at the last place": ("gpt2_classifier", "pooling", MODEL, "last place"),
    "roberta counts padding as positions": ("roberta", "padding not skipped", MODEL, ""),
    "clip pools at the last place": ("clip", "pooling", MODEL, "last place"),
    "clip pools at the last end token": ("clip", "pooling", MODEL, "last of several"),
    "llama's positions end at 30": ("llama", "position_ids ignored", MODEL, "clipped at 30"),
    "llama's positions end at 45": ("llama", "position_ids ignored", MODEL, "clipped at 45"),
    "gpt2's positions end at 45": ("gpt2", "position_ids ignored", MODEL, "clipped at 45"),
    "a window of 48 tokens is one of 39": ("mistral_window_48", "sliding window", MODEL, "-9"),
    "a window of 48 tokens is one of 41": ("mistral_window_48", "sliding window", MODEL, "-7"),
    "a window of 48 tokens is dropped": ("mistral_window_48", "sliding window", MODEL, "dropped"),
    "t5's bucket of distances from 27 on": ("t5", "relative bias", DECODER, "row 20"),
    "t5's minimum that long prompts need": ("t5", "relative bias", DECODER, "left out"),
    "bert's row 100 of positions": ("bert", "position table", MODEL, "row 100"),
    "bart's row 50 of positions": ("bart", "position table", ENCODER, "row 50"),
    "bert's row of a word that no text has": ("bert", "table row unseen", MODEL, "row 2511"),
    "llama's row of a word that no text has": ("llama", "table row unseen", MODEL, "row 511"),
}
"""The special faults of an earlier attack on the check, which found 5 of 15: model, kind, file, end of the site."""


@pytest.mark.parametrize("special", SPECIAL.values(), ids=SPECIAL)
def test_a_special_fault_is_found(special, assert_found):
    (result,) = assert_found([fault_at(*special)])
    assert result.status != EQUIVALENT


def fault_at(name, kind, file, end):
    """The first fault of a kind in a file whose site ends with `end`."""
    every = verdicts.faults(name, {kind: NAMED[kind]})
    return next(fault for fault in every if fault.file == file and fault.site.endswith(end))


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


@pytest.mark.parametrize(
    ("kind", "site", "status"),
    [
        ("weight noise", "classifier.weight 1.0%", MISSED),
        ("axis name", "logits[0]", MISSED),
        ("mask weak", "= -10000", EQUIVALENT),
    ],
)
def test_a_fault_that_the_check_passes_is_missed_unless_it_changes_no_answer(kind, site, status, monkeypatch):
    monkeypatch.setattr(verdicts, "validated", lambda tested, _: tested.exported.report)
    assert verdicts.verdict(fault_at("bert_classifier", kind, MODEL, site)).status == status


def test_an_error_that_is_not_documented_is_no_finding(monkeypatch):
    monkeypatch.setattr(verdicts, "validated", Mock(side_effect=IndexError))
    assert verdicts.verdict(Fault("bert_classifier", "axis name", "model.onnx", "logits[0]")).status == RAW


# Random mutants: an operator, a constant, an edge, a weight

COUNT = 1000
"""Random mutants of the sweep, shared by all models."""

NAMES = tuple(fault_models.MODELS)

MUTATED = ("bert_classifier", "clip")
"""The models of the default run, and how many mutants of each."""

SAMPLE = 12


def mutants(name, count):
    """Random mutants of a model: first the kind is drawn, then the site."""
    return verdicts.drawn(verdicts.faults(name, KINDS), count, seed=NAMES.index(name))


def share(name):
    """The number of mutants of a model, so that all have `COUNT`."""
    return COUNT // len(NAMES) + (NAMES.index(name) < COUNT % len(NAMES))


@pytest.mark.parametrize("name", MUTATED)
def test_some_random_mutants_are_found(name, assert_found):
    assert sum(result.status in (FOUND, NOT_RUN) for result in assert_found(mutants(name, SAMPLE))) > SAMPLE // 2


@pytest.mark.sweep
@pytest.mark.parametrize("name", NAMES)
def test_random_mutants_are_found(name, assert_found):
    assert len(assert_found(mutants(name, share(name)), record_as="random mutants")) == share(name)

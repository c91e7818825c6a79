"""The check finds random changes of graphs: an operator, a constant, an edge, a weight.

python -m pytest tests/check/test_random_mutants.py -m sweep            # 1,000 mutants
python -m pytest tests/check/test_random_mutants.py -m sweep --record   # and writes tests/sweeps/mutants.json
"""

import fault_models
import pytest
import verdicts
from mutations import KINDS
from verdict_counts import FOUND, NOT_RUN

COUNT = 1000
"""Random mutants of the sweep, shared by all models."""

NAMES = tuple(fault_models.MODELS)

SAMPLED = ("bert_classifier", "clip")
"""The models of the default run, and how many mutants of each."""

SAMPLE = 12


def mutants(name, count):
    """Random mutants of a model: first the kind is drawn, then the site."""
    return verdicts.drawn(verdicts.faults(name, KINDS), count, seed=NAMES.index(name))


def share(name):
    """The number of mutants of a model, so that all have `COUNT`."""
    return COUNT // len(NAMES) + (NAMES.index(name) < COUNT % len(NAMES))


@pytest.mark.parametrize("name", SAMPLED)
def test_some_random_mutants_are_found(name, assert_found):
    results = assert_found(mutants(name, SAMPLE))
    assert sum(result.status in (FOUND, NOT_RUN) for result in results) > SAMPLE // 2


@pytest.mark.sweep
@pytest.mark.parametrize("name", NAMES)
def test_random_mutants_are_found(name, assert_found):
    results = assert_found(mutants(name, share(name)), record_as="random mutants")
    assert len(results) == share(name)

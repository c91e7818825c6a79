"""Each model type and task of Optimum's table is validated by a sweep, or says why it cannot be; and many more are."""

from __future__ import annotations

import swept
from corrections import NEVER_MADE
from declarations import contract, exports
from transformers import CONFIG_MAPPING


def declared():
    """Every model type and task that Optimum exports and transformers still has; test_libraries.py is of the others."""
    return {
        (model_type, task.partition("@")[0])  # a variant is exported as another file of the same
        for model_type in contract()
        if model_type in CONFIG_MAPPING
        for preset in contract()[model_type]["configs"]
        for task in exports(model_type, preset)
    }


def validated():
    """Every model type and task that a sweep has seen agree with PyTorch."""
    return {
        (model_type, task)
        for family in swept.FAMILIES
        for model_type, tasks in swept.seen(family).items()
        for task in swept.validated(tasks)
    }


def excused():
    """Those of which no model is, each with its reason."""
    return {(one.model_type, task) for one in NEVER_MADE for task in one.tasks if one.model_type in CONFIG_MAPPING}


def test_every_pair_of_optimums_table_is_validated_or_says_why_not():
    assert declared() - validated() - excused() == set()


def test_what_is_excused_is_not_validated_all_the_same():
    assert excused() & validated() == set()


def test_little_is_excused():
    assert len(excused()) < 0.03 * len(declared())


def test_more_than_250_model_types_are_validated():
    assert len({model_type for model_type, _ in validated()}) >= 250

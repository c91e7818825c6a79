"""Names that differ between versions of transformers: one record, found from what is installed."""

import logging
import warnings
from types import SimpleNamespace

import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st
from transformers.utils.logging import warning_once

import onnxfn
from onnxfn.architectures.private import renamed as its
from onnxfn.architectures.wrappers.modules import module

NAMES = st.sampled_from([name for group in its.GROUPS for name in group]) | st.sampled_from(["labels", "input_ids"])


def test_no_name_is_in_two_groups():
    names = [name for group in its.GROUPS for name in group]
    assert len(names) == len(set(names))


@given(NAMES, st.frozensets(NAMES))
def test_a_name_becomes_another_one_of_its_group_alone_and_only_if_that_is_there(name, names):
    found = its.name_among(name, names)
    assert found == name or (found in names and name not in names)
    assert its.spec_name(found) == its.spec_name(name)


@given(st.frozensets(NAMES))
def test_renaming_twice_is_renaming_once(names):
    once = its.renamed({"past_key_values": 1, "labels": 2}, names)
    assert its.renamed(once, names) == once


@pytest.mark.parametrize("name", ["past_key_values", "cache_params", "cache", "layer_past"])
def test_a_replaced_function_takes_the_cache_by_each_name(name):
    assert its.called_by_any_name(lambda states, cache=None, **_: (states, cache))(0, **{name: 1}) == (0, 1)


@pytest.mark.parametrize("name", ["past_key_values", "cache"])
def test_a_module_gets_its_cache_by_the_name_of_its_forward(name):
    forward = {"past_key_values": lambda past_key_values: past_key_values, "cache": lambda cache: cache}[name]
    assert its.called(module(forward), cache=3) == 3


@pytest.mark.parametrize("name", ["past_key_values", "cache"])
def test_a_field_is_found_by_any_name(name):
    assert its.field(SimpleNamespace(**{name: 3}), "past_key_values") == 3


def test_an_export_says_nothing_of_deprecated_names(tmp_path):
    """transformers 5.24 logs once in a process where an old name is used, and warns at each call."""
    warning_once.cache_clear()
    heard = []
    handler = logging.Handler()
    handler.emit = lambda record: heard.append(record.getMessage())
    logging.getLogger("transformers").addHandler(handler)
    try:
        with warnings.catch_warnings(action="error", category=FutureWarning):
            model = tiny.model("llama", "LlamaForCausalLM")
            onnxfn.export(onnxfn.derived(model, "text-generation-with-past"), model, tmp_path / "out")
    finally:
        logging.getLogger("transformers").removeHandler(handler)
    assert heard == []

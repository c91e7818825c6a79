"""The short names of patches and wrappers: each one resolves, rows use no other names, and no name is unused."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from declared_specs import specs_for_derivation, specs_of_rows, values_for_derivation

from onnxfn import with_expanded_cache
from onnxfn.architectures import ARCHITECTURES
from onnxfn.architectures.functions import FUNCTIONS, PATCHES, WRAPPERS
from onnxfn.graphs.capture.submodules import SUBMODULES
from onnxfn.specs.functions import resolve


def patches_in_tables():
    """The names in the tables `{function of transformers: (short name, reason)}`."""
    tables = [value for value in values_for_derivation() if isinstance(value, Mapping)]
    rows = [row for table in tables for row in table.values()]
    return {row[0] for row in rows if isinstance(row, tuple) and len(row) == 2 and isinstance(row[0], str)}


def patches_of(specs):
    return {patch.by for spec in specs for patch in spec.call.patches}


def submodules_of(specs):
    return {spec.call.submodule for spec in specs if spec.call.submodule is not None}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_short_name_resolves_to_the_function_of_that_name(name):
    file, _, function = name.partition(".")
    resolved = resolve(name, FUNCTIONS, kind="function")
    if isinstance(resolved, property):  # a patch of a property
        return
    assert resolved.__name__ == function
    assert resolved.__module__ in (f"onnxfn.architectures.patches.{file}", f"onnxfn.architectures.wrappers.{file}")


def test_every_patch_in_a_row_is_in_the_table():
    assert patches_of(specs_of_rows()) <= FUNCTIONS.keys()


def test_every_submodule_in_a_row_is_in_the_table():
    assert submodules_of(specs_of_rows()) <= SUBMODULES.keys()


def test_every_patch_of_a_derived_spec_is_in_the_table():
    assert len(patches_in_tables()) >= 3
    assert patches_in_tables() <= FUNCTIONS.keys()
    assert len(patches_of(specs_for_derivation())) >= 3
    assert patches_of(specs_for_derivation()) <= FUNCTIONS.keys()


def test_no_name_in_the_table_is_unused():
    edited = with_expanded_cache(ARCHITECTURES["deepseek_v3"])
    specs = [*specs_of_rows(), *specs_for_derivation(), edited]
    used = patches_of(specs) | submodules_of(specs) | patches_in_tables()
    assert FUNCTIONS.keys() - used == set()


def test_no_short_name_stands_for_two_functions():
    names = [f"{file}.{name}" for table in (PATCHES, WRAPPERS) for file in table for name in table[file].split()]
    assert len(names) == len(set(names))

"""The short names of patches and wrappers: each one resolves, and no function of a folder is unused."""

from __future__ import annotations

from functools import partial

import pytest
from declared_specs import specs_for_derivation, specs_of_rows
from refusals import refusal

from onnxfn import with_expanded_cache
from onnxfn.architectures import ARCHITECTURES
from onnxfn.architectures.functions import function_named
from onnxfn.architectures.patch_table import PATCHES
from onnxfn.models.submodules import SUBMODULES
from onnxfn.specs.errors import UnknownName

SPECS = (*specs_of_rows(), *specs_for_derivation(), with_expanded_cache(ARCHITECTURES["deepseek_v3"]))


def patches():
    return {by for by, _ in PATCHES.values()} | {patch.by for spec in SPECS for patch in spec.call.patches}


def submodules():
    names = {spec.call.submodule for spec in SPECS} - {None, *SUBMODULES}
    return {name for name in names if not name.startswith("self.")}


@pytest.mark.parametrize(("folder", "names"), [("patches", patches()), ("wrappers", submodules())])
def test_each_short_name_resolves_to_a_function_of_its_file(folder, names):
    assert len(names) > 20
    for name in sorted(names):
        file, _, function = name.partition(".")
        resolved = function_named(name, folder, kind="function")
        if not isinstance(resolved, property):  # a patch of a property
            assert (resolved.__module__, resolved.__name__) == (f"onnxfn.architectures.{folder}.{file}", function)


@pytest.mark.parametrize(
    "name", ["attention", "attention.", ".padding_mask", "attention.padding_mask.", "attentio.padding_mask", "a/b.c"]
)
def test_a_short_name_of_no_function_is_unknown(name):
    assert refusal(UnknownName, partial(function_named, kind="patch"), name, "patches").startswith("no patch ")

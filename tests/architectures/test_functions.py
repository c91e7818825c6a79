"""The short names of patches and wrappers: each one resolves, rows use no other names, and no name is unused."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from onnxfn import with_expanded_cache
from onnxfn.architectures import ARCHITECTURES, common_patches
from onnxfn.architectures.common_patches import packed_attention
from onnxfn.architectures.encoder_decoders import SEEING
from onnxfn.architectures.families.feature_inputs import ONE_SIZED_IMAGE
from onnxfn.architectures.families.features import (
    FEATURES,
    inner_decoder,
    prefix_decoder,
    token_table,
    tower,
    wide_decoder,
)
from onnxfn.architectures.families.image_tokens import drawing_parts
from onnxfn.architectures.families.seeing_seq2seq import encoder_and_decoder_of_embeddings
from onnxfn.architectures.functions import FUNCTIONS, PATCHES, WRAPPERS
from onnxfn.export.lookup import derive
from onnxfn.graphs.capture.submodules import SUBMODULES
from onnxfn.specs.functions import resolve
from onnxfn.specs.spec import ExportSpec


def with_overlays(spec):
    """A spec, and the specs of its tasks, cases and behaviors, at any depth."""
    yield spec
    for overlay in (*spec.tasks, *spec.cases, *spec.parts.behaviors):
        yield from with_overlays(overlay.spec)


def specs_of_rows():
    return [spec for row in ARCHITECTURES.values() for spec in with_overlays(row)]


def values_for_derivation():
    """The values of the modules that derive a spec from a model, and that hold the patches of derived specs."""
    return [*vars(common_patches).values(), *vars(derive).values()]


def specs_for_derivation():
    values = [value for value in values_for_derivation() if isinstance(value, ExportSpec)]
    values.append(packed_attention("transformers.models.qwen2_vl.modeling_qwen2_vl"))
    values += [inner_decoder, prefix_decoder, token_table, wide_decoder, ONE_SIZED_IMAGE, *map(tower, FEATURES)]
    values += [encoder_and_decoder_of_embeddings, *SEEING.values(), drawing_parts(ExportSpec())]
    return [spec for value in values for spec in with_overlays(value)]


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

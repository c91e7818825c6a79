"""The arguments of `forward` from the processors of a model: its tokenizer, its feature extractor."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from onnxfn.export.derive.candidate_inputs import forward_parameters
from onnxfn.specs.algebra.config_values import config_of
from onnxfn.specs.results.output_types import MAIN_INPUTS, MODALITY_OF

SOMETIMES_GIVEN = ("attention_mask", "token_type_ids")
"""Common arguments that only some tokenizers and feature extractors return."""

TABLES = (
    ("text", "tokenization_auto", "TOKENIZER_MAPPING_NAMES"),
    ("audio", "feature_extraction_auto", "FEATURE_EXTRACTOR_MAPPING_NAMES"),
)
"""Modality -> the table of transformers with the class that prepares it for each model type."""


def processed_arguments(model: Any) -> tuple[tuple[str, ...], frozenset[str]]:
    """The parameters of a model's `forward`, and those of them that its processors give.

    A mask of an image or its size is given wherever `forward` has it. Tokenizers and feature extractors differ, so
    their classes are asked. A model that is not one of transformers has no processors.
    """
    config = config_of(model)
    if not hasattr(config, "model_type"):
        return (), frozenset()
    parameters = tuple(forward_parameters(model))
    certain = (set(parameters) & MODALITY_OF.keys()) - {*SOMETIMES_GIVEN}
    unsure = [name for name in SOMETIMES_GIVEN if name in parameters]
    by_class = set(_class_names(config.model_type, parameters)) if unsure else set()
    return parameters, frozenset(certain | by_class.intersection(unsure))


def _class_names(model_type: str, parameters: Collection[str]) -> Iterator[str]:
    """The names that the tokenizer of a model type gives, if the model reads texts, and its feature extractor."""
    import transformers

    for modality, module, table in TABLES:
        if set(parameters).isdisjoint(MAIN_INPUTS[modality]):
            continue
        name = getattr(getattr(transformers.models.auto, module), table).get(model_type)
        yield from _input_names(name) if name else ()


def _input_names(name: str) -> Collection[str]:
    """The outputs of a processor class of transformers. If its library is missing, all unsure names."""
    import transformers

    try:
        names = getattr(getattr(transformers, name, None), "model_input_names", ())
    except ImportError:
        return SOMETIMES_GIVEN
    return names if isinstance(names, list | tuple) else ()

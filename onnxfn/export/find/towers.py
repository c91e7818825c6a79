"""The spec of a tower: the encoder of images or of sounds of a multimodal model, with inputs on which it runs."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from attrs import evolve

from onnxfn.architectures.families.feature_inputs import IMAGE_FORMS, PIXELS
from onnxfn.architectures.families.features import AUDIO, VISION, tower
from onnxfn.architectures.families.sound_inputs import SOUND_FORMS
from onnxfn.architectures.wrappers.feature_methods import feature_method, fixed_sides
from onnxfn.export.derive.derive import masked_by_eager
from onnxfn.export.derive.known_inputs import CONFIG_KEYS
from onnxfn.export.derive.probe import accepted, all_tensors, outputs_spec, summary
from onnxfn.export.find.written_tasks import METHODS
from onnxfn.specs.algebra.compose import compose, constant, reads
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.axis_symbols import with_symbols
from onnxfn.specs.edits.behaviors import model_part
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.records import OutputSpec

CLIENT_NAMES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {"qwen2_vl": {"image_grid_thw": "grid_thw"}, "voxtral": {"input_features": "audio_values"}}
)
"""Model type -> argument of a tower -> the name of the input in transformers.js, if it differs."""

FORMS: Mapping[str, Mapping[str, tuple[ExportSpec, ...]]] = MappingProxyType({VISION: IMAGE_FORMS, AUDIO: SOUND_FORMS})
"""Tower -> the arguments of its method -> the forms of its inputs."""

ROWS: Mapping[str, str] = MappingProxyType({VISION: "num_image_tokens", AUDIO: "num_audio_tokens"})
"""Tower -> the symbol of the number of rows that it computes, one per token to replace."""


def tower_spec(model: Any, part: str) -> ExportSpec:
    """A spec of a tower with the first inputs on which it runs."""
    errors: list[Exception] = []
    forms = (_as_clients_say(model, form) for form in _forms(model, part))
    towers = (tower(part, CONFIG_KEYS, form, masked_by_eager(model)) for form in forms)
    for spec, runs in accepted(model, towers, all_tensors, errors):
        (output,) = outputs_spec(runs).outputs
        return model_part(part, spec, ExportSpec(outputs=(_named(output, part),)))
    first = f", first: {summary(errors[0])}" if errors else ""
    raise InvalidSpec(
        f"{METHODS[part]} of {type(model).__name__} runs on no inputs that are known; "
        f"tried in {len(errors)} forms{first}; for its language model alone, choose the task text-generation"
    )


def _as_clients_say(model: Any, form: ExportSpec) -> ExportSpec:
    """The inputs with the names that clients use for this model type."""
    names = CLIENT_NAMES.get(model.config.model_type, {})
    inputs = (evolve(each, name=names.get(each.name, each.name), path=each.forward_path) for each in form.inputs)
    return evolve(form, inputs=tuple(inputs))


def _named(output: OutputSpec, part: str) -> OutputSpec:
    """The output with a usual symbol for the number of its rows, where no input has an axis of that size."""
    of_rows = [axis.symbol for axis in output.axes.axes if axis.symbol.startswith(f"{output.name}_axis")][-1:]
    return with_symbols(output, dict.fromkeys(of_rows, ROWS[part]))  # type: ignore[no-any-return]


def _forms(model: Any, part: str) -> Iterator[ExportSpec]:
    """The forms whose arguments the method of a tower has, those with the most arguments first."""
    sides = fixed_sides(model) if part == VISION else None
    if sides is not None:
        yield compose(PIXELS, reads(image_height=constant(sides[0]), image_width=constant(sides[1])))
    method = feature_method(model, METHODS[part])
    known = inspect.signature(method).parameters if method else {}
    for names, forms in FORMS[part].items():
        if known.keys() >= {*names.split()}:
            yield from forms

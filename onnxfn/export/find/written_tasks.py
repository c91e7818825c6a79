"""Models that see or hear and write texts: which are written in parts, and specs of encoders of images or sounds."""

import inspect
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from attrs import evolve

from onnxfn.architectures.families.feature_inputs import IMAGE_FORMS, PIXELS, SOUND_FORMS
from onnxfn.architectures.families.features import AUDIO, FEATURES, VISION, tower
from onnxfn.architectures.placeholders import PLACES, placeholders
from onnxfn.architectures.wrappers.feature_methods import feature_method, fixed_sides, has_feature_method
from onnxfn.export.derive.auto_tables import is_listed, listed_classes, listed_tasks
from onnxfn.export.derive.derive import masked_by_eager
from onnxfn.export.derive.known_inputs import CONFIG_KEYS
from onnxfn.export.derive.probe import accepted, outputs_spec, summary
from onnxfn.export.derive.trees import all_tensors
from onnxfn.export.load.class_tasks import stated_class
from onnxfn.specs.algebra.compose import compose, constant, reads
from onnxfn.specs.algebra.config_values import snapshot
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.axis_symbols import with_symbols
from onnxfn.specs.edits.behaviors import model_part
from onnxfn.specs.edits.token_embeddings import EMBEDS
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.tasks.tasks import DEFAULT_TASK, WITH_PAST, canonical

SEES, HEARS, SEES_AND_HEARS = "image-text-to-text", "audio-text-to-text", "any-to-any"
"""The tasks of models that write texts: from images, from sounds, from both."""

TOWERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {SEES: (VISION,), HEARS: (AUDIO,), SEES_AND_HEARS: (VISION, AUDIO)}
)
"""Task of multimodal models, all of which are written in parts -> their possible towers."""

OTHER_TASKS = (DEFAULT_TASK, "automatic-speech-recognition", "text2text-generation")
"""Tasks of other models too: only a model whose configuration names placeholder tokens is written in parts."""

METHODS: Mapping[str, str] = MappingProxyType({VISION: "get_image_features", AUDIO: "get_audio_features"})
"""Tower -> the method of a model that runs it."""

LISTED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {SEES_AND_HEARS: (SEES_AND_HEARS,), SEES: (SEES,), HEARS: (HEARS, "text2text-generation")}
)
"""Task -> the tasks in whose tables transformers lists its classes: Audio Flamingo 3 is in that of encoder-decoders."""


def written_task(model_or_config: Any) -> str | None:
    """The task of a class, of a model or in a configuration, that sees or hears and writes; None for any other."""
    name = None if isinstance(model_or_config, str) else stated_class(model_or_config)
    if name is None:
        return None
    tasks = (task for task in LISTED if any(is_listed(name, each) for each in LISTED[task]))
    return next((task for task in tasks if all(_has_tower(name, model_or_config, part) for part in TOWERS[task])), None)


def possible_tasks(model_type: str) -> tuple[str, ...]:
    """The tasks that transformers lists a class for, those in parts with past too; no class without ears hears."""
    import transformers

    owners = [getattr(transformers, name, None) for name in listed_classes(model_type, HEARS)]
    hears = any(has_feature_method(owner, METHODS[AUDIO]) for owner in owners)  # its table has types that see, too
    tasks = (task for task in listed_tasks(model_type) if task != HEARS or hears)
    return tuple(each for task in tasks for each in ((task, f"{task}{WITH_PAST}") if task in TOWERS else (task,)))


def _has_tower(name: str, model_or_config: Any, part: str) -> bool:
    """Whether a class of transformers has the method that runs a tower, and a checkpoint of it has the tower."""
    import transformers

    return has_feature_method(getattr(transformers, name, None), METHODS[part]) and has_section(model_or_config, part)


def has_section(model_or_config: Any, part: str) -> bool:
    """Whether a tower may exist: False if the configuration denies it. Its section is None then, as in Gemma 4 26B."""
    return snapshot(model_or_config).get({VISION: "vision_config", AUDIO: "audio_config"}[part], {}) is not None


def reads_features(model_or_config: Any, task: str | None) -> bool:
    """Whether a model for a task of OTHER_TASKS reads images or sounds in the places of placeholder tokens."""
    # False for a type as text, an encoder-decoder, and without embeddings as input (NeoMME) or with a mask (Kosmos-2).
    if isinstance(model_or_config, (str, Mapping)) or stem_of(task) not in OTHER_TASKS:
        return False
    config = snapshot(model_or_config)
    if config.get("is_encoder_decoder"):
        return False
    import transformers

    towers = [part for part in METHODS if FEATURES[part] in placeholders(config).tokens]
    listed = next(iter(listed_classes(str(config.get("model_type")), stem_of(task))), "")
    is_model = hasattr(model_or_config, "forward")
    owner: Any = type(model_or_config) if is_model else getattr(transformers, listed, None)
    if not towers or not all(has_feature_method(owner, METHODS[part]) for part in towers):
        return False
    parameters = inspect.signature(owner.forward).parameters
    return EMBEDS in parameters and PLACES not in parameters


def stem_of(task: str | None) -> str:
    """The task without its past; feature-extraction if there is none."""
    return DEFAULT_TASK if task is None else canonical(task).removesuffix(WITH_PAST)


CLIENT_NAMES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {"qwen2_vl": {"image_grid_thw": "grid_thw"}, "voxtral": {"input_features": "audio_values"}}
)
"""Model type -> argument of a tower -> the name of the input in transformers.js, if it differs."""


def tower_spec(model: Any, part: str) -> ExportSpec:
    """A spec of a tower with the first inputs on which it runs."""
    errors: list[Exception] = []
    forms = (_as_clients_say(model, form) for form in _forms(model, part))
    towers = (tower(part, CONFIG_KEYS, form, masked_by_eager(model)) for form in forms)
    for spec, runs in accepted(model, towers, all_tensors, errors):
        (output,) = outputs_spec(runs).outputs
        # A usual symbol for the number of its rows, one per token to replace, where no input has an axis of that size.
        usual = {VISION: "num_image_tokens", AUDIO: "num_audio_tokens"}[part]
        of_rows = [axis.symbol for axis in output.axes.axes if axis.symbol.startswith(f"{output.name}_axis")][-1:]
        output = with_symbols(output, dict.fromkeys(of_rows, usual))
        return model_part(part, spec, ExportSpec(outputs=(output,)))
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


def _forms(model: Any, part: str) -> Iterator[ExportSpec]:
    """The forms whose arguments the method of a tower has, those with the most arguments first."""
    sides = fixed_sides(model) if part == VISION else None
    if sides is not None:
        yield compose(PIXELS, reads(image_height=constant(sides[0]), image_width=constant(sides[1])))
    method = feature_method(model, METHODS[part])
    known = inspect.signature(method).parameters if method else {}
    for names, forms in {VISION: IMAGE_FORMS, AUDIO: SOUND_FORMS}[part].items():
        if known.keys() >= {*names.split()}:
            yield from forms

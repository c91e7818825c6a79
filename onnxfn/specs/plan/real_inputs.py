"""Arguments of a model that a plan leaves out, and inputs that a caller gives."""

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.random import Generator as Random

from onnxfn.specs.algebra.dummies import Array, dtype_of, dummies, known_sizes
from onnxfn.specs.algebra.fills import positions
from onnxfn.specs.algebra.planned import LeftOut, Plan, PlannedSpec
from onnxfn.specs.algebra.spec import ExportSpec, inner_specs
from onnxfn.specs.axes import names, shape, solve_for_name
from onnxfn.specs.axis_symbols import fixed_sizes
from onnxfn.specs.edits.optional_inputs import can_take
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.records import InputSpec
from onnxfn.specs.results.output_types import MAIN_INPUTS, MODALITY_OF, NOUNS


def left_out(
    spec: ExportSpec, planned: Plan, parameters: Collection[str], processed: Collection[str]
) -> tuple[LeftOut, ...]:
    """The arguments that a processor gives and no part takes, in the order of `forward`; none in decoders."""
    taken = planned.arguments
    if "encoder_outputs" in taken and taken.isdisjoint(name for names in MAIN_INPUTS.values() for name in names):
        return ()
    missing = [name for name in parameters if name in processed and name not in taken]
    edits = {name: f'with_input(spec, "{name}")' for name in missing if can_take(spec, name)}
    return tuple(LeftOut(name, _reason(spec, name, planned.modalities), edits.get(name, "")) for name in missing)


def _reason(spec: ExportSpec, name: str, present: Collection[str]) -> str:
    """Why no part takes an argument: its modality is not in the plan, its condition is false, or the spec has none."""
    modality = MODALITY_OF.get(name)
    if modality is not None and modality not in present:
        line = f"; to try, derive a spec from a sample: derived(model, sample={{{name!r}: tensor, ...}})"
        return f"the plan has no {NOUNS[modality]}{line if name in MAIN_INPUTS[modality] else ''}"
    same = (tensor for inner in inner_specs(spec) for tensor in inner.inputs if tensor.forward_path[0] == name)
    condition = next((tensor.when for tensor in same if tensor.when is not None), None)
    if condition is not None:
        return f"the configuration does not set {condition}"
    return f"the spec of {spec.name or 'this model'} has no such input"


WORDS = ("the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "while", "two", "small", "cats", "sleep")
HERTZ, SECONDS = 220.0, 1.0
PIXELS = 64
"""Height and width of an image before the preprocessor resizes it."""

MEAN, DEVIATION = 0.45, 0.225
"""What most image processors take from a color between 0 and 1, and what they divide it by."""


def real_inputs(spec: PlannedSpec, preprocessor: Any, sizes: Mapping[str, int], *, seed: int = 0) -> dict[str, Array]:
    """The inputs of a spec as a preprocessor computes them, else dummies. InvalidSpec for another object or shape."""
    dummy_sizes = known_sizes(spec, sizes)
    features = _features(spec, preprocessor, dummy_sizes, seed)
    inputs = [input_ for input_ in spec.inputs if _is_computed(input_, features)]
    computed = {input_.name: np.asarray(features[str(input_.forward_path[0])]) for input_ in inputs}
    if not computed:
        raise InvalidSpec(
            f"{type(preprocessor).__name__} computes {', '.join(features) or 'nothing'}, but the inputs of "
            f"{spec.name or 'this spec'} are {', '.join(input_.name for input_ in spec.inputs)}"
        )
    all_sizes = {**dummy_sizes, **_sizes(spec, computed)}
    real = {name: _with_planned_shape(spec.inputs[name], array, all_sizes) for name, array in computed.items()}
    arrays = dummies(spec, all_sizes, seed=seed)
    arrays = arrays | position_ids(spec, arrays, real.get("attention_mask")) | real
    return {input_.name: arrays[input_.name].astype(dtype_of(spec, input_)) for input_ in spec.inputs}


def real_inputs_by_part(plan: Plan, preprocessor: Any) -> dict[str, dict[str, Array]]:
    """`{part name: inputs}` for each part of a plan with inputs of a preprocessor; InvalidSpec if no part has any."""
    if preprocessor is None:
        return {}
    inputs = {part.name: prompt_inputs(part.spec, preprocessor) for part in plan.parts}
    if not any(inputs.values()):
        real_inputs(plan.parts[0].spec, preprocessor, {})  # raises the error that names the features and the inputs
    return {name: arrays for name, arrays in inputs.items() if arrays}


def prompt_inputs(
    spec: PlannedSpec, preprocessor: Any, sizes: Mapping[str, int] = MappingProxyType({}), *, seed: int = 0
) -> dict[str, Array]:
    """The `real_inputs` of a part without a past; none when the preprocessor computes none of them."""
    features = _features(spec, preprocessor, known_sizes(spec, sizes), seed)
    if not any(_is_computed(input_, features) for input_ in spec.inputs):
        return {}
    past = {name for input_ in spec.inputs if input_.generator == "past_states" for name in names(input_.axes)}
    not_past = {spec.batch, *fixed_sizes(spec)}
    return real_inputs(spec, preprocessor, {**sizes, **dict.fromkeys(past - not_past, 0)}, seed=seed)


def picture_inputs(spec: PlannedSpec, preprocessor: Any = None, *, count: int, seed: int) -> dict[str, Array]:
    """The inputs of a part for at most `count` pictures from a seed; None for a part that reads no pictures."""
    main = (each for each in spec.inputs if each.forward_path[0] in MAIN_INPUTS["image"])
    images = [each.name for each in main if len(each.axes.axes) == 4]  # noqa: PLR2004 - batch, colors, height, width
    if not images:
        return {}
    sizes, (*_, height, width) = dict[str, int](), dummies(spec, {})[images[0]].shape
    if spec.batch in names(spec.inputs[images[0]].axes) and spec.batch not in fixed_sizes(spec):
        most = 32 * 224 * 224 // (height * width)  # a run has two pictures of any size
        sizes = {spec.batch: max(2, min(count, most))}
    if preprocessor is not None and (computed := prompt_inputs(spec, preprocessor, sizes, seed=seed)):
        return computed
    random, arrays = np.random.default_rng(seed), dummies(spec, sizes, seed=seed)
    for name in images:
        count, colors, *size = arrays[name].shape
        pictures = np.stack([picture(random, *size) for _ in range(count)])[..., np.arange(colors) % 3]
        arrays[name] = ((pictures / 255 - MEAN) / DEVIATION).transpose(0, 3, 1, 2).astype(arrays[name].dtype)
    return arrays


def picture(random: Random, height: int, width: int) -> Array:
    """A picture `[height, width, 3]` in bytes: waves over a gradient, up to four disks and boxes, and noise."""
    y, x = np.meshgrid(np.linspace(0, 1, height), np.linspace(0, 1, width), indexing="ij")

    def waves() -> Array:
        (angle, phase), rate = random.uniform(0, 2 * np.pi, 2), random.uniform(1, 40)
        along = np.cos(angle) * x + np.sin(angle) * y
        first, second = random.uniform(0, 1, (2, 3))
        share = 0.5 * along + random.uniform(0, 0.5) * np.sin(rate * along + phase)
        return np.asarray(first + share[..., None] * (second - first))

    image = waves()
    for _ in range(random.integers(5)):
        size, *center = random.uniform(0.05, 0.95, 3)
        distances = np.abs(np.stack([y, x]) - np.reshape(center, (2, 1, 1)))
        order = random.choice([2, np.inf])  # a disk or a box
        image = np.where((np.linalg.norm(distances, order, axis=0) < size / 2)[..., None], waves(), image)
    image = image + random.normal(0, random.uniform(0, 0.1), image.shape)
    return (image.clip(0, 1) * 255).astype(np.uint8)


def _is_computed(input_: InputSpec, features: Mapping[str, Any]) -> bool:
    return len(input_.forward_path) == 1 and input_.forward_path[0] in features


def position_ids(spec: PlannedSpec, arrays: Mapping[str, Array], mask: Array | None) -> dict[str, Array]:
    """The inputs with position ids that depend on a mask, for this mask."""
    if mask is None:
        return {}
    generators = {each.name for each in spec.dummies.generators if each.function == "positions" and each.arguments}
    random = np.random.default_rng(0)  # `positions` draws no number
    inputs = [input_.name for input_ in spec.inputs if input_.generator in generators]
    return {name: positions(random, arrays[name].shape, mask=mask) for name in inputs}


def _features(spec: PlannedSpec, preprocessor: Any, sizes: Mapping[str, int], seed: int) -> dict[str, Any]:
    """The outputs of a preprocessor, or of each component of a processor, by the names of arguments of `forward`."""
    names = ("tokenizer", "image_processor", "feature_extractor", "video_processor")
    components = [component for name in names if (component := getattr(preprocessor, name, None)) is not None]
    features: dict[str, Any] = {}
    for component in components or [preprocessor]:
        run = next((run for attribute, run in FEATURES.items() if hasattr(component, attribute)), None)
        if run is None:
            raise InvalidSpec(
                f"{type(component).__name__} is no tokenizer, image processor or feature extractor of transformers: "
                "it has no pad_token_id, image_mean or sampling_rate"
            )
        features.update(run(spec, component, sizes, seed))
    return features


def _text_features(spec: PlannedSpec, tokenizer: Any, sizes: Mapping[str, int], _: int) -> dict[str, Any]:
    """Token ids of texts with the planned shape; pairs of texts if the model has `token_type_ids`."""
    # If the tokenizer pads, each text is shorter than the one before, so that all but the first have padding.
    input_ids = next((input_ for input_ in spec.inputs if input_.forward_path == ("input_ids",)), None)
    if input_ids is None:
        return {}
    *rows, length = shape(input_ids.axes, sizes)
    count, pads = int(np.prod(rows)), tokenizer.pad_token_id is not None
    shorter = [max(1, length * (count - row) // (2 * count)) for row in range(1, count)]
    word_counts = [2 * length, *(shorter if pads else [2 * length] * (count - 1))]
    texts = [_text(row, words) for row, words in enumerate(word_counts)]
    has_pairs = any(input_.forward_path == ("token_type_ids",) for input_ in spec.inputs)
    seconds = [[_text(row + 1, words) for row, words in enumerate(word_counts)]] * has_pairs
    tokens = tokenizer(texts, *seconds, truncation=True, max_length=length, padding="max_length" if pads else False)
    return {name: np.reshape(np.asarray(ids), (*rows, -1)) for name, ids in tokens.items()}


def _text(start: int, count: int) -> str:
    return " ".join(WORDS[(start + index) % len(WORDS)] for index in range(count))


def _image_features(spec: PlannedSpec, processor: Any, sizes: Mapping[str, int], seed: int) -> dict[str, Any]:
    """The outputs of an image processor for a batch of pictures."""
    random = np.random.default_rng(seed)
    images = [picture(random, PIXELS, PIXELS) for _ in range(sizes.get(spec.batch, 1))]
    return dict(processor(images, return_tensors="np"))


def _sound_features(spec: PlannedSpec, extractor: Any, sizes: Mapping[str, int], _: int) -> dict[str, Any]:
    """The outputs of a feature extractor for a batch of tones at its sampling rate, each softer than the one before."""
    rate = extractor.sampling_rate
    tone = np.sin(2 * np.pi * HERTZ * np.arange(int(SECONDS * rate)) / rate).astype(np.float32)
    tones = [tone / (2 + row) for row in range(sizes.get(spec.batch, 1))]
    return dict(extractor(tones, sampling_rate=rate, return_tensors="np"))


def _sizes(spec: PlannedSpec, computed: Mapping[str, Array]) -> dict[str, int]:
    """The sizes of dynamic axes in the tensors that a preprocessor computed."""
    fixed = fixed_sizes(spec).keys()
    return {
        name: name_size
        for input_ in spec.inputs
        if input_.name in computed and len(input_.axes.axes) == computed[input_.name].ndim
        for axis, size in zip(input_.axes.axes, computed[input_.name].shape, strict=True)
        if axis.kind == "dynamic"
        for name, name_size in solve_for_name(axis.symbol, size).items()
        if name not in fixed
    }


def _with_planned_shape(input_: InputSpec, array: Array, sizes: Mapping[str, int]) -> Array:
    """The array, a mask with ones for the past in front; InvalidSpec when the plan has another shape."""
    planned = shape(input_.axes, sizes)
    if input_.generator == "padding_mask" and array.shape[:-1] == planned[:-1] and array.shape[-1] < planned[-1]:
        past = np.ones((*planned[:-1], planned[-1] - array.shape[-1]), array.dtype)
        return np.concatenate([past, array], axis=-1)
    if array.shape != planned:
        raise InvalidSpec(
            f"the preprocessor computes {input_.name!r} with the shape {list(array.shape)}, but the plan has "
            f"{list(planned)}; is it the preprocessor of this model?"
        )
    return array


FEATURES: Mapping[str, Callable[..., dict[str, Any]]] = MappingProxyType(
    {"pad_token_id": _text_features, "sampling_rate": _sound_features, "image_mean": _image_features}
)
"""The attribute by which a kind of preprocessor is known -> the function that runs it."""

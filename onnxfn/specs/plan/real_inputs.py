"""Dummy tensors through a real preprocessor: a text, a pair of texts, an image, a tone of 220 Hz."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from onnxfn.specs.axes import names, shape, solve_for_name
from onnxfn.specs.dummies import Array, dtype_of, dummies, known_sizes, positions
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.fixed_axes import fixed_sizes
from onnxfn.specs.planned import Plan, PlannedSpec
from onnxfn.specs.records import InputSpec

WORDS = ("the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "while", "two", "small", "cats", "sleep")
HERTZ, SECONDS = 220.0, 1.0
PIXELS = 64
"""Height and width of an image before the preprocessor makes it the model's."""

PARTS = ("tokenizer", "image_processor", "feature_extractor", "video_processor")
"""What a processor of transformers is made of."""


def real_inputs(spec: PlannedSpec, preprocessor: Any, sizes: Mapping[str, int], *, seed: int = 0) -> dict[str, Array]:
    """One array an input of a planned spec, by a tokenizer, an image processor, a feature extractor, or all of them.

    What the spec does not take is dropped; what it takes and the preprocessor does not make is a dummy of the same
    sizes. InvalidSpec for a preprocessor that makes none of the inputs, or one of another shape than is planned.
    """
    known = known_sizes(spec, sizes)
    made = _made(spec, preprocessor, known, seed)
    taken = {one.name: np.asarray(made[str(one.place[0])]) for one in spec.inputs if _from(one, made)}
    if not taken:
        raise InvalidSpec(
            f"{type(preprocessor).__name__} makes {', '.join(made) or 'nothing'}, and {spec.name or 'this spec'} takes "
            f"{', '.join(one.name for one in spec.inputs)}"
        )
    told = {**known, **_sizes(spec, taken)}
    real = {one.name: _fitting(one, taken[one.name], told) for one in spec.inputs if one.name in taken}
    mask = real.get("attention_mask")
    others = dummies(spec, told, seed=seed)
    random = np.random.default_rng(seed)
    placed = {one.name: positions(random, others[one.name].shape, mask=mask) for one in _numbered(spec)}
    every = others | (placed if mask is not None else {}) | real
    return {one.name: every[one.name].astype(dtype_of(spec, one)) for one in spec.inputs}


def real_inputs_by_part(made: Plan, preprocessor: Any) -> dict[str, dict[str, Array]]:
    """What a preprocessor makes for each part of a plan that takes it, with nothing before; none for none.

    InvalidSpec when no part takes what it makes.
    """
    if preprocessor is None:
        return {}
    fed = {one.name: _beginning(one.spec, preprocessor) for one in made.parts}
    if not any(fed.values()):
        real_inputs(made.parts[0].spec, preprocessor, {})  # says what it makes, and what is taken
    return {name: arrays for name, arrays in fed.items() if arrays}


def _beginning(spec: PlannedSpec, preprocessor: Any) -> dict[str, Array]:
    """What the part of a plan is fed first of a real input; nothing when it takes none of that."""
    made = _made(spec, preprocessor, known_sizes(spec, {}), 0)
    if not any(_from(one, made) for one in spec.inputs):
        return {}
    past = {name for one in spec.inputs if one.generator == "past_states" for name in names(one.axes)}
    fixed = {"batch_size", *fixed_sizes(spec)}
    return real_inputs(spec, preprocessor, dict.fromkeys(past - fixed, 0))


def _from(one: InputSpec, made: Mapping[str, Any]) -> bool:
    return len(one.place) == 1 and one.place[0] in made


def _numbered(spec: PlannedSpec) -> tuple[InputSpec, ...]:
    """The inputs that say the places of tokens among those that a mask keeps."""
    counting = {made.name for made in spec.dummies.generators if made.function == "positions" and made.arguments}
    return tuple(one for one in spec.inputs if one.generator in counting)


def _made(spec: PlannedSpec, preprocessor: Any, sizes: Mapping[str, int], seed: int) -> dict[str, Any]:
    """What a preprocessor makes, by the names that `forward` knows; each part of a processor by itself."""
    parts = [getattr(preprocessor, name) for name in PARTS if getattr(preprocessor, name, None) is not None]
    made: dict[str, Any] = {}
    for one in parts or [preprocessor]:
        kind = next((kind for kind, is_so in KINDS.items() if is_so(one)), None)
        if kind is None:
            raise InvalidSpec(
                f"{type(one).__name__} is no tokenizer, image processor or feature extractor of transformers: "
                "it has no pad_token_id, image_mean or sampling_rate"
            )
        made.update(MAKERS[kind](spec, one, sizes, seed))
    return made


def _texts(spec: PlannedSpec, tokenizer: Any, sizes: Mapping[str, int], _: int) -> dict[str, Any]:
    """Texts as long as is asked for, each shorter than the one before where padding is; pairs where segments are."""
    one = next((one for one in spec.inputs if one.place == ("input_ids",)), None)
    if one is None:
        return {}
    *rows, length = shape(one.axes, sizes)
    count, pads = int(np.prod(rows)), tokenizer.pad_token_id is not None
    shorter = [max(1, length * (count - row) // (2 * count)) for row in range(1, count)]
    lengths = [2 * length, *(shorter if pads else [2 * length] * (count - 1))]
    texts = [_text(row, words) for row, words in enumerate(lengths)]
    pairs = [_text(row + 1, words) for row, words in enumerate(lengths)]
    paired = (pairs,) if any(one.place == ("token_type_ids",) for one in spec.inputs) else ()
    told = tokenizer(texts, *paired, truncation=True, max_length=length, padding="max_length" if pads else False)
    return {name: np.reshape(np.asarray(ids), (*rows, -1)) for name, ids in told.items()}


def _text(start: int, count: int) -> str:
    return " ".join(WORDS[(start + place) % len(WORDS)] for place in range(count))


def _images(_: PlannedSpec, processor: Any, sizes: Mapping[str, int], seed: int) -> dict[str, Any]:
    """Images of noise, as many as is asked for."""
    random = np.random.default_rng(seed)
    images = [random.integers(0, 256, (PIXELS, PIXELS, 3), dtype=np.uint8) for _ in range(sizes.get("batch_size", 1))]
    return dict(processor(images, return_tensors="np"))


def _tones(_: PlannedSpec, extractor: Any, sizes: Mapping[str, int], __: int) -> dict[str, Any]:
    """A tone, each time a little softer; as it is heard by what takes so many samples a second."""
    rate = extractor.sampling_rate
    tone = np.sin(2 * np.pi * HERTZ * np.arange(int(SECONDS * rate)) / rate).astype(np.float32)
    tones = [tone / (2 + row) for row in range(sizes.get("batch_size", 1))]
    return dict(extractor(tones, sampling_rate=rate, return_tensors="np"))


def _sizes(spec: PlannedSpec, taken: Mapping[str, Array]) -> dict[str, int]:
    """The sizes that the real tensors have."""
    fixed = fixed_sizes(spec).keys()
    return {
        name: told
        for one in spec.inputs
        if one.name in taken and len(one.axes.axes) == taken[one.name].ndim
        for axis, size in zip(one.axes.axes, taken[one.name].shape, strict=True)
        if axis.kind == "dynamic"
        for name, told in solve_for_name(axis.symbol, size).items()
        if name not in fixed
    }


def _fitting(one: InputSpec, real: Array, sizes: Mapping[str, int]) -> Array:
    """The real tensor, a mask with all that is kept before it; InvalidSpec when the plan has another shape."""
    planned = shape(one.axes, sizes)
    if one.generator == "padding_mask" and real.shape[:-1] == planned[:-1] and real.shape[-1] < planned[-1]:
        before = np.ones((*planned[:-1], planned[-1] - real.shape[-1]), real.dtype)
        return np.concatenate([before, real], axis=-1)
    if real.shape != planned:
        told = f"of {list(real.shape)} where the plan has {list(planned)}"
        raise InvalidSpec(f"the preprocessor makes {one.name!r} {told}; is it the one of this model?")
    return real


KINDS: Mapping[str, Callable[[Any], bool]] = MappingProxyType(
    {
        "text": lambda one: hasattr(one, "pad_token_id"),
        "sound": lambda one: hasattr(one, "sampling_rate"),
        "image": lambda one: hasattr(one, "image_mean"),
    }
)
MAKERS: Mapping[str, Callable[..., dict[str, Any]]] = MappingProxyType(
    {"text": _texts, "sound": _tones, "image": _images}
)

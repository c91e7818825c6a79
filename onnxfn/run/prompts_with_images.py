"""Texts with images and sounds for the check of a whole model, from the dummies of its parts and by its processor."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle, islice
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np
from attrs import frozen

from onnxfn.architectures.placeholders import AUDIO_FEATURES, IMAGE_FEATURES, Placeholders, placeholder_of
from onnxfn.run.prompts import processed
from onnxfn.run.towers import GRIDS, TOWERS, argument_of
from onnxfn.specs.algebra.dummies import Array, dummies
from onnxfn.specs.algebra.planned import Part, PlannedSpec
from onnxfn.specs.axes import names
from onnxfn.specs.edits.token_embeddings import IDS
from onnxfn.specs.plan.check_cases import in_case

NOUNS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {IMAGE_FEATURES: ("image", "images"), AUDIO_FEATURES: ("sound", "sounds")}
)
LEAD, BETWEEN, TAIL = 5, 2, 4
"""The ordinary tokens before the first image of a text, between two images, and after the last one."""

TOKENS = 64
"""The number of ordinary tokens that are drawn."""


@frozen
class Prompt:
    """Texts with images or sounds: a name for a report, and arguments of `forward` as a processor gives them."""

    case: str
    arguments: Mapping[str, Array]


def whole_prompts(
    towers: Mapping[str, Part],
    table: PlannedSpec,
    known: Placeholders,
    features_of: Callable[[Part, Mapping[str, Array]], Array],
) -> Iterator[Prompt]:
    """A text alone; for each tower a text with an image, one with several, and a batch with an image in each text.

    The texts of the batch are padded on the left. The towers are by the stem of their files without the suffix of a
    dtype, and `table` looks up the embeddings of tokens. `features_of` runs a tower on its inputs.
    """
    ids = next(input_ for input_ in table.inputs if input_.name == IDS)
    drawn = dummies(table, dict(zip(names(ids.axes), (1, 16 * TOKENS), strict=True)))[IDS].ravel().tolist()
    ordinary = [token for token in drawn if token not in known.special][:TOKENS]  # no placeholder, no end
    yield Prompt("a text alone", text_arguments([()], 0, ordinary, known.padding))
    for stem, part in towers.items():
        token, (noun, nouns) = placeholder_of(TOWERS[stem], known), NOUNS[TOWERS[stem]]
        start = known.starts.get(TOWERS[stem])
        for spec in (for_one(part.spec), part.spec):
            inputs = dummies(spec, {})
            rows = rows_of_each(features_of(part, inputs), inputs)
            arguments = {argument_of(name): array for name, array in inputs.items()}
            label = f"1 {noun}" if len(rows) == 1 else f"{len(rows)} {nouns}"
            text = text_arguments([rows], token, ordinary, known.padding, start=start)
            yield Prompt(f"{label} in a text", arguments | text)
            if len(rows) > 1:
                batch = text_arguments([(each,) for each in rows], token, ordinary, known.padding, start=start)
                yield Prompt(f"{label} in {len(rows)} left-padded texts", arguments | batch)


def encoder_prompts(encoder: Part) -> Iterator[Prompt]:
    """One image, and several, as the inputs of an encoder that reads nothing else."""
    for spec in (for_one(encoder.spec), encoder.spec):
        inputs = dummies(spec, {})
        count = len(inputs[spec.inputs[0].name])
        arguments = {str(input_.forward_path[0]): inputs[input_.name] for input_ in spec.inputs}
        yield Prompt("1 image" if count == 1 else f"{count} images", arguments)


def for_one(spec: PlannedSpec) -> PlannedSpec:
    """The spec with the dummies of its case of one image, if it has one."""
    return next((in_case(spec, case) for case in spec.cases if case.name == "one"), spec)


def rows_of_each(features: Array, inputs: Mapping[str, Array]) -> tuple[int, ...]:
    """The number of rows of features of each image.

    The features are `[images, rows, width]`, or `[rows, width]` for all images together. One of the inputs may be the
    grids of patches: as many patches of each image become one row.

    >>> rows_of_each(np.zeros((2, 5, 8)), {})
    (5, 5)
    >>> rows_of_each(np.zeros((6, 8)), {"image_grid_thw": np.array([[1, 4, 4], [1, 2, 4]])})
    (4, 2)
    """
    grids = next((inputs[name] for name in inputs if argument_of(name) in GRIDS.values()), None)
    if grids is not None:
        patches = grids.prod(axis=1)
        return tuple(int(count) * prod(features.shape[:-1]) // int(patches.sum()) for count in patches)
    if features.ndim > 2:  # noqa: PLR2004 - rows and width
        return (prod(features.shape[1:-1]),) * len(features)
    count = max(1, len(next(iter(inputs.values()))))  # any division will do: the rows follow each other
    return tuple(len(part) for part in np.array_split(features, count))


def text_arguments(
    texts: Sequence[Sequence[int]],
    token: int,
    ordinary: Sequence[int],
    padding: int | None = None,
    *,
    start: int | None = None,
) -> dict[str, Array]:
    """Token ids and mask of texts; each text is given by how many placeholder tokens each of its images has.

    Padding is an ordinary token if `padding` is None. `start` is the token before each image, if there is one.
    """
    before = () if start is None else (start,)
    rows = [_tokens(images, (*before, token), ordinary, number) for number, images in enumerate(texts)]
    length = max(map(len, rows))
    pad = ordinary[0] if padding is None else padding
    ids = np.array([[pad] * (length - len(row)) + row for row in rows])
    mask = np.array([[0] * (length - len(row)) + [1] * len(row) for row in rows])
    return {IDS: ids, "attention_mask": mask}


def _tokens(images: Sequence[int], tokens: Sequence[int], ordinary: Sequence[int], number: int) -> list[int]:
    """The tokens of a text, with `tokens` for an image; each text has three less in front than the one before it."""
    *start, token = tokens
    drawn = cycle([*ordinary[number:], *ordinary[:number]])
    text = [*islice(drawn, max(1, LEAD - 3 * number))]
    for index, rows in enumerate(images):
        text += [*islice(drawn, BETWEEN if index else 0), *start, *[token] * rows]
    return [*text, *islice(drawn, TAIL)]


def processed_prompts(processor: Any) -> Iterator[Prompt]:
    """A text with one picture, and one with pictures of two sizes; none without a processor of images and texts."""
    if any(getattr(processor, name, None) is None for name in ("tokenizer", "image_processor")):
        return
    random = np.random.default_rng(0)
    pictures = [random.integers(0, 256, (*size, 3), dtype=np.uint8) for size in ((50, 70), (96, 64))]
    for count in range(1, len(pictures) + 1):
        case = f"{count} picture{'s' * (count > 1)} by {type(processor).__name__}"
        yield Prompt(case, processed(processor, "What is this?", pictures[:count], ()))

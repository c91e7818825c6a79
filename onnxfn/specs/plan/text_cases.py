"""The cases of token ids besides those of the spec: special tokens, masks with holes, long texts."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Any

from attrs import evolve, frozen

from onnxfn.specs.algebra.compose import either, group, named
from onnxfn.specs.algebra.config_values import Snapshot, value_or
from onnxfn.specs.algebra.dummies import known_sizes
from onnxfn.specs.algebra.planned import Case, PlannedSpec
from onnxfn.specs.algebra.spec import Dummies
from onnxfn.specs.axes import names, shape, symbols, terms
from onnxfn.specs.axis_symbols import fixed_sizes
from onnxfn.specs.edits.logits_to_keep import NUM_LOGITS
from onnxfn.specs.plan.check_cases import FAR_PAST, FAR_TEXT, cases, in_case, past_lengths, resized
from onnxfn.specs.records import Generator, InputSpec, NestedDummy, Normalizer

SPECIAL_TOKENS, LONG_TEXT, LONG_PAST = "special tokens", "long text", "long past"
"""The names of these cases. Far ones are longer than all thresholds of the configuration, see `thresholds`."""

SHORTEST, LONGEST, UNUSED_POSITIONS = 64, 512, 2
"""The tokens of a long text: of large models, and of small ones. The positions that RoBERTa's tables leave unused."""

LARGEST_TABLE, BEYOND = 16_384, 9
"""The largest table of positions that is read to its end, and by how many tokens a far text exceeds a threshold."""

SECTIONS = ("text_config.", "", "decoder.", "decoder_config.", "encoder.", "encoder_config.")
"""Where a configuration may keep the facts about its texts, the first that has them counts."""

POSITION_COUNTS = (
    *("max_position_embeddings", "n_positions", "max_encoder_position_embeddings", "max_decoder_position_embeddings"),
    *("max_target_positions", "max_text_positions", "max_seq_len"),
)
"""What configurations call the number of positions that a model has."""

MIXED_SIDES: Mapping[tuple[str, ...], tuple[str, ...]] = MappingProxyType(
    {("right", "left"): ("first", "left", "holes"), ("right",): ("right", "first")}
)
"""From the sides on which cases have padding to the masks of the rows of one case, as words of `mixed_mask`."""

TOKEN_FILLS = ("integers", "ids_with_end")
"""The functions of generators whose token ids may be replaced: none of them stands for a part of an image."""

WORDS = re.compile(
    r"sliding_window|attention_window|window_size|window_len|local_attention|attention_chunk|chunk_size|chunk_length"
    r"|original_max_position|index_topk|floor_scale"
)
"""The words in the names of thresholds."""

OTHERS = re.compile(r"vision|image|video|audio|speech|acoustic|lm_head|feed_forward|mamba|pattern|label")
"""The words in the names of other integers, and of configurations that are not of texts."""

LONGROPE, DYNAMIC = "longrope", "dynamic"
"""The types of rope scaling that depend on the largest position; the second is a part of several names."""

ROPE_TYPES = ("rope_type", "type")
ROTARY = ("rope_parameters", "rope_scaling", "rope_theta", "rotary_dim", "rotary_pct")
"""The keys of the type of scaling, and of models that have rotary embeddings and no table of positions."""


@frozen
class TextFacts:
    """The pad token, an end token and the longest text of a configuration; `far`: a length for each threshold."""

    pad: int | None = None
    end: int | None = None
    longest: int = 0
    far: tuple[int, ...] = ()


def text_facts(normalizer: Normalizer, config: Snapshot) -> TextFacts:
    """The facts that a configuration has; scaling that begins where the positions end allows longer texts."""
    read = partial(value_or, normalizer, config, default=None)
    pads, ends = (either(*(f"{section}{name}" for section in SECTIONS)) for name in ("pad_token_id", "eos_token_id"))
    positions = [count - UNUSED_POSITIONS for count in position_counts(read).values()]
    types = [value for name, value in _of_texts(config) if name in ROPE_TYPES]
    grows = any(is_scaled(each) and each != LONGROPE for each in types)  # the positions are then no limit
    growing = {count + UNUSED_POSITIONS for count in positions} if grows else set()
    longest = sys.maxsize if growing else min(positions, default=sys.maxsize)
    changes = (each for each in (*thresholds(config), *growing) if SHORTEST - BEYOND < each < longest)
    has_rotary = any(name in ROTARY and value is not None for name, value in _of_texts(config))
    table = {longest} if LONGEST < longest <= LARGEST_TABLE and not has_rotary else set()
    return TextFacts(
        pad=_first_token(read(pads)),
        end=_first_token(read(ends)),
        longest=longest,
        far=tuple(sorted(table.union(min(each + BEYOND, longest) for each in changes))),
    )


def position_counts(read: Callable[[str], Any]) -> dict[str, int]:
    """The path of each number of positions in a configuration -> the number; `read` returns what a path has."""
    values = {f"{section}{name}": read(f"{section}{name}") for name in POSITION_COUNTS for section in SECTIONS}
    return {path: count for path, count in values.items() if isinstance(count, int) and count > 0}


def with_text_cases(spec: PlannedSpec, facts: TextFacts, others: tuple[str, ...] = ()) -> PlannedSpec:
    """The planned spec with cases of special tokens and long texts; `others`: lengths that count without ids."""
    lengths = tuple(dict.fromkeys([*symbols(ids.axes).values()][-1] for ids in _token_inputs(spec))) or others
    pasts = past_lengths(spec)
    needed = {*pasts, *pasts.values(), *(name for ids in _token_inputs(spec) for name in names(ids.axes))}
    # A case without the size of the tokens or of the past cannot run.
    if not lengths or not all(needed <= _sizes(spec, case).keys() for case in cases(spec)):
        return spec
    special, long_cases = _with_special_tokens(spec, facts), partial(_long_cases, spec, lengths)
    known = {name for input_ in spec.inputs for name in names(input_.axes)}
    decided = {name for output in spec.outputs for name in names(output.axes)} <= known | {NUM_LOGITS}  # not of speech
    if not {*lengths} <= known - fixed_sizes(spec).keys() or not (others or decided):
        return evolve(spec, cases=special)
    long = long_cases(min(LONGEST, facts.longest), (LONG_TEXT, LONG_PAST))
    ends = (*(f" {number}" for number in range(len(facts.far), 1, -1)), "")
    far = (long_cases(n, (FAR_TEXT + end, FAR_PAST + end), 1) for n, end in zip(facts.far, ends, strict=False))
    return evolve(spec, cases=(*special, *long, *chain(*far)))


def _with_special_tokens(spec: PlannedSpec, facts: TextFacts) -> tuple[Case, ...]:
    """The cases of a spec; one has pad tokens at masked tokens, end tokens inside texts, and holes in masks."""
    # It takes the place of a case with padding, so that the check costs the same: see `_sides` for its rows.
    masks = {ids.name: mask for ids in _token_inputs(spec) for mask in _masks(spec, ids)[:1]}
    if not masks:
        return cases(spec)
    replaced = tuple(input_ for input_ in _token_inputs(spec) if input_.name in masks)
    generators = {generator.name: generator for generator in spec.dummies.generators}
    mask_names = {mask.generator for mask in masks.values()}
    padded = [case for case in cases(spec) if {"left", "right"} & {*_paddings(case.dummies, mask_names)}]

    def suitability(case: Case) -> tuple[int, int]:
        """Greater for a case with more texts, three at most; then for a shorter past, as its texts are complete."""
        sizes = _sizes(spec, case)
        return min(shape(replaced[0].axes, sizes)[0], 3), -sum(sizes[past] for past in past_lengths(spec))

    base, sides = max(padded or cases(spec), key=suitability), _sides(spec, mask_names)
    special = [_special_ids(generators[ids.generator], ids, masks[ids.name], facts) for ids in replaced]
    masked = [_mixed_mask(generators[name], sides) for name in sorted(mask_names)]
    inputs = tuple(evolve(ids, generator=f"special {ids.name}") for ids in replaced)
    dummies = group(base.dummies, Dummies(generators=(*masked, *special)))
    case = evolve(base, name=SPECIAL_TOKENS, dummies=dummies, inputs=named(base.inputs, inputs))
    return tuple(case if other == base else other for other in cases(spec))


def _mixed_mask(generator: Generator, sides: Iterable[str]) -> Generator:
    """The generator of a mask whose rows are padded in several ways, for that of a padding mask."""
    shortest = {name: value for name, value in generator.arguments if name == "shortest"}
    return Generator(generator.name, "mixed_mask", {"sides": " ".join(sides), **shortest})


def _special_ids(generator: Generator, ids: InputSpec, mask: InputSpec, facts: TextFacts) -> Generator:
    """The generator of the ids of an input, with the special tokens that its vocabulary has."""
    arguments = dict(generator.arguments)
    size, known = arguments.get("high"), {"pad": facts.pad, "end": arguments.get("end", facts.end)}
    vocabulary = range(size) if isinstance(size, int) else range(0)
    tokens = {name: token for name, token in known.items() if isinstance(token, int) and token in vocabulary}
    nested = {"ids": NestedDummy(ids.generator, ids.axes), "mask": NestedDummy(mask.generator, mask.axes)}
    return Generator(f"special {ids.name}", "special_ids", {**nested, **tokens})


def _token_inputs(spec: PlannedSpec) -> tuple[InputSpec, ...]:
    """The inputs that hold token ids; the last axis is the text, not the codes of one step."""
    functions = {generator.name: generator.function for generator in spec.dummies.generators}
    ids = (each for each in spec.inputs if each.name.endswith("input_ids"))
    drawn = (each for each in ids if functions.get(each.generator) in TOKEN_FILLS)
    return tuple(each for each in drawn if len(each.axes.axes) - 1 in symbols(each.axes))


def _masks(spec: PlannedSpec, ids: InputSpec) -> list[InputSpec]:
    """The padding masks of an input with token ids: as long as the tokens, or as the past and the tokens."""
    functions = {generator.name: generator.function for generator in spec.dummies.generators}
    *rows, length = symbols(ids.axes).values()

    def is_mask(input_: InputSpec) -> bool:
        if functions.get(input_.generator) != "mask" or not symbols(input_.axes):
            return False
        *mask_rows, mask_length = symbols(input_.axes).values()
        return mask_rows == rows and length in (mask_length, terms(mask_length)[-1])

    return [input_ for input_ in spec.inputs if is_mask(input_)]


def _sides(spec: PlannedSpec, masks: Iterable[str]) -> tuple[str, ...]:
    """The masks of the rows of one case, by the sides on which the cases of a spec have padding: see `mixed_mask`."""
    paddings = {padding for case in cases(spec) for padding in _paddings(case.dummies, masks)}
    sides = tuple(side for side in ("right", "left") if side in {*paddings, *_paddings(spec.dummies, masks)})
    return MIXED_SIDES.get(sides, sides) or ("none",)


def _paddings(dummies: Dummies, masks: Iterable[str]) -> list[str]:
    return [dict(each.arguments).get("padding", "right") for each in dummies.generators if each.name in masks]


def _long_cases(
    spec: PlannedSpec, lengths: tuple[str, ...], longest: int, case_names: tuple[str, str], most_new: int = LONGEST
) -> tuple[Case, ...]:
    """One case with a long text, and one with a past as long and `most_new` tokens; none if others are as long."""
    every_case, pasts = cases(spec), past_lengths(spec)
    single = [case for case in every_case if _sizes(spec, case).get("batch_size", 1) == 1]
    if not single or max([_sizes(spec, case)[length] for case in every_case for length in lengths]) >= longest:
        return ()
    prompt = min(single, key=lambda case: sum(_sizes(spec, case)[past] for past in pasts))
    of_prompt = _sizes(spec, prompt)
    before = sum(of_prompt[past] for past in pasts)
    text = evolve(resized(prompt, dict.fromkeys(lengths, longest - before)), name=case_names[0])
    continued = next((case for case in single if pasts and all(_sizes(spec, case)[past] for past in pasts)), None)
    if continued is None:
        return (text,)
    added = {new: min(_sizes(spec, continued)[new], most_new) for new in pasts.values()}
    sizes = {**of_prompt, **{symbol: longest - added[new] for symbol, new in pasts.items()}, **added}
    return (text, evolve(resized(continued, sizes), name=case_names[1]))


def _sizes(spec: PlannedSpec, case: Case) -> dict[str, int]:
    return known_sizes(in_case(spec, case), {})


def _first_token(value: Any) -> int | None:
    """A token id, or the first of several."""
    token = value[0] if isinstance(value, (list, tuple)) and value else value
    return token if isinstance(token, int) else None


def is_scaled(rope_type: Any) -> bool:
    """Whether the frequencies of a type of rope scaling depend on the largest position."""
    return isinstance(rope_type, str) and (rope_type == LONGROPE or DYNAMIC in rope_type)


def thresholds(config: Mapping[str, Any]) -> Iterator[int]:
    """The thresholds in a configuration, except those of scalings that are the same for all texts: yarn, llama3."""
    for name, value in _of_texts(config):
        values = value if isinstance(value, (list, tuple)) else (value,)
        yield from (each for each in values if type(each) is int and WORDS.search(name))


def _of_texts(config: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """The names and values of a configuration, and of those inside it, that are of texts."""
    for name, value in config.items():
        if not OTHERS.search(str(name)):
            yield str(name), value
            yield from _of_texts(value) if isinstance(value, Mapping) and not _is_fixed_scaling(value) else ()


def _is_fixed_scaling(rope: Mapping[str, Any]) -> bool:
    """Whether a dict describes a scaling that is the same for all texts. Some also scale the queries of long texts."""
    types = [rope.get(key) for key in ROPE_TYPES if key in rope]
    return bool(types) and not any(map(is_scaled, types)) and "llama_4_scaling_beta" not in rope

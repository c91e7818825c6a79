"""The layers of a large model on a far text, which is longer than the thresholds of its configuration.

The whole model would take too long. Two layers of each kind are compared, one after the other: each reads what PyTorch
computes, without the layers between and the head. Both continue from the past of the file.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve

from onnxfn.check.cases.references import LONGEST_RUN, CheckCase, Reference, case_label
from onnxfn.check.cuts.cut import EMBEDDING, SHARED, Section, Sections
from onnxfn.check.cuts.runs import in_type, run_sections
from onnxfn.check.sections.check import RecordedCase, exact_result, real_array
from onnxfn.check.sections.chosen_layers import ChosenLayers, chosen_layers, hidden_states, layer_results
from onnxfn.check.sections.hidden_states import first_array
from onnxfn.check.variants.proof import variant_kind
from onnxfn.check.verdict.choices import WorseChoice, choosing_as_file, picked_positions
from onnxfn.check.verdict.compare import Exact, compare, token_features
from onnxfn.check.verdict.verdict import Comparison, precision_of
from onnxfn.specs.algebra.dummies import Array, dtype_of, dummy, known_sizes
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.axes import shape, symbols
from onnxfn.specs.errors import CaptureFailed, InvalidSpec
from onnxfn.specs.plan.check_cases import FAR_PAST, past_lengths, resized
from onnxfn.specs.plan.text_cases import BEYOND, LONGEST
from onnxfn.specs.records import InputSpec
from onnxfn.specs.stored.reports import Report, Tick, no_tick

LONGEST_PAST = 16_400
"""The most tokens of a past that layers read: PyTorch gets one for all layers, 5 GB for 40 layers of 8 heads."""


def far_text_report(model: Any, part: Part, file: Path, far: Sequence[CheckCase], *, tick: Tick = no_tick) -> Report:
    """The cases and the faults of chosen layers on far texts, which are too dear for the whole model."""
    # `unchecked` has texts that are too long, and all of them for quantized and 16-bit files or without a chain.
    longest = {case.name.startswith(FAR_PAST): case for case in far if _steps(case)}
    steps = [step for case in longest.values() for step in _steps(case)]
    try:
        is_read = steps and variant_kind(part.spec) is None
        comparisons = tuple(_comparisons(chosen_layers(model, part, file, tick), steps, tick)) if is_read else ()
    except (CaptureFailed, InvalidSpec):
        comparisons = ()
    cases = dict.fromkeys(each.case for each in comparisons)
    findings = [
        f"{part.name}: the hidden states after {each.output} are {each.max_abs:.2e} away from PyTorch at {each.case} "
        f"(allowed are {each.tolerance:.1e})"
        for each in comparisons
        if not each.passed
    ]
    read = max((case.tokens for case in longest.values()), default=0) if comparisons else 0
    unread = dict.fromkeys(f"texts beyond {case.tokens - BEYOND:,} tokens" for case in far if case.tokens > read)
    return Report((), cases, findings, unchecked=[f"{part.name}.onnx: {each}" for each in unread])


def _steps(case: CheckCase) -> tuple[CheckCase, ...]:
    """The runs that read a far text: one, or none if it is too long."""
    pasts, new = past_lengths(case.spec), LONGEST_RUN**2 // max(1, case.tokens)
    if case.tokens <= LONGEST_RUN:
        return (case,)
    if not case.name.startswith(FAR_PAST) or case.tokens > LONGEST_PAST:
        return ()
    # Such a past repeats that of a short text. The tokens after it have as many scores.
    sizes = ((0, LONGEST), (case.tokens - new, new))
    of_axes = [dict.fromkeys(pasts, past) | dict.fromkeys(pasts.values(), added) for past, added in sizes]
    return tuple(evolve(case, spec=resized(case.spec, each)) for each in of_axes)


def _comparisons(chosen: ChosenLayers, far: Sequence[CheckCase], tick: Tick) -> Iterator[Comparison]:
    """The comparisons in each case; a past is what the layers of the file computed for the text of the case before."""
    spec, past = chosen.part.spec, dict[str, Array]()
    feedback, wider = {each.output: each.input for each in spec.feedback}, precision_of(spec.target.float_dtype).wider
    numbers = f"{' and '.join(map(str, chosen.indices))} of {len(chosen.sectioned.layers)}"
    for case in far:
        inputs = _with_past(chosen, case, past)
        run = partial(hidden_states, chosen, inputs)
        label = f"{case_label(spec, case.name, inputs)} by layers {numbers}"
        recorded = RecordedCase(Reference(label, inputs, ()), run(()), cache(partial(run, wider)))
        values = _file_values(chosen, recorded, tick)
        yield from _case_comparisons(chosen, recorded, values, tick)
        past = {feedback[name]: array for name, array in values.items() if name in feedback}


def _case_comparisons(
    chosen: ChosenLayers, recorded: RecordedCase, values: Mapping[str, Array], tick: Tick
) -> Iterator[Comparison]:
    """The comparisons of the embedding and of the result of each chosen layer."""
    spec, reference, hidden = chosen.part.spec, recorded.reference, chosen.sectioned.sections.hidden
    outputs = [hidden[0], *(hidden[index + 1] for index in chosen.indices)]
    again = cache(partial(_results_with_picks, chosen, recorded, values))
    for number, expected in enumerate(recorded.hidden.states):
        path, actual = (EMBEDDING, *chosen.paths)[number], real_array(values[outputs[number]])
        select = token_features(spec, expected.shape, reference.inputs)
        compared = partial(compare, spec, path, reference.case, actual, select=select, tick=tick)
        exact = Exact(partial(exact_result, recorded, number - 1)) if number else Exact()
        comparison = compared(expected, exact=exact)
        if number and not comparison.passed and again():
            comparison = compared(again()[number - 1])
        yield comparison


def _with_past(chosen: ChosenLayers, case: CheckCase, past: Mapping[str, Array]) -> dict[str, Array]:
    """The inputs of a case, with the first tokens of a past, which repeats if it is shorter; zeros for other layers."""
    spec, lengths, sizes = case.spec, past_lengths(case.spec), known_sizes(case.spec, {})
    read = {name for section in _sections_with_picks(chosen) for name in section.inputs}

    def array(input_: InputSpec) -> Array:
        if input_.layer is not None and input_.name not in read:
            return np.zeros(shape(input_.axes, sizes), dtype_of(spec, input_))
        if input_.name not in past:
            return dummy(spec, input_, sizes, seed=case.seed)
        values = past[input_.name]
        for axis, symbol in symbols(input_.axes).items():
            if symbol in lengths:
                values = values.take(np.arange(sizes[symbol]) % values.shape[axis], axis)
        return values.astype(dtype_of(spec, input_), copy=False)

    return {input_.name: array(input_) for input_ in spec.inputs}


def _results_with_picks(chosen: ChosenLayers, recorded: RecordedCase, values: Mapping[str, Array]) -> tuple[Array, ...]:
    """What the layers return with the picks of the file; empty without picks, or if they differ not by rounding."""
    picks = [values[name] for name in picked_positions(chosen.sectioned.written) if name in values]
    with (
        suppress(CaptureFailed, WorseChoice),
        choosing_as_file(picks, (), precision_of(chosen.part.spec.target.float_dtype)),
    ):
        results = layer_results(chosen, recorded.reference.inputs, recorded.hidden.states) if picks else ()
        return tuple(map(first_array, results))
    return ()


def _sections_with_picks(chosen: ChosenLayers) -> tuple[Section, ...]:
    """The sections to run, with the positions that they pick among their outputs: rounding can change these."""
    written, names = chosen.sectioned.written, {SHARED, EMBEDDING, *chosen.paths}
    picked = {*picked_positions(written)}

    def with_picks(section: Section) -> Section:
        computed = (name for index in section.nodes for name in written.model.graph.node[index].output)
        own = dict.fromkeys((*section.outputs, *(name for name in computed if name in picked)))
        return evolve(section, outputs=tuple(own))

    return tuple(with_picks(each) for each in chosen.sectioned.sections.sections if each.name in names)


def _file_values(chosen: ChosenLayers, recorded: RecordedCase, tick: Tick) -> dict[str, Array]:
    """What the sections of the file compute from PyTorch's hidden states: hidden states, the past, and picks."""
    written, hidden = chosen.sectioned.written, chosen.sectioned.sections.hidden
    states = {
        hidden[index]: in_type(written, hidden[index], state)
        for index, state in zip(chosen.indices, recorded.hidden.states, strict=False)
    }
    sections, feeds = Sections(_sections_with_picks(chosen), hidden), {**recorded.reference.inputs, **states}
    read_later = {*hidden, *picked_positions(written), *(each.output for each in chosen.part.spec.feedback)}
    runs = run_sections(written, sections, [feeds], [states], tick=tick)
    return {name: array for _, [outputs] in runs for name, array in outputs.items() if name in read_later}

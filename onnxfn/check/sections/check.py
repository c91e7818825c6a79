"""The check of a file by sections: embedding, layers and head, one after the other, each with PyTorch's hidden states.

PyTorch runs each case once, with its weights read from the checkpoint, and its hidden states are recorded. Then each
section of the written file runs by itself, twice in each case. First its inputs are PyTorch's hidden states: these give
the error of this section alone. Then they come from the sections before. The outputs of the second chain are those of
the whole file, and are compared as in the check of the whole.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from attrs import field, frozen

from onnxfn.check.cases.references import (
    OutputArrays,
    Reference,
    references,
    stated_limits,
    symbol_sizes,
    trace_conditions,
)
from onnxfn.check.check import compared_file, file_weights, judged_cases
from onnxfn.check.cuts.cut import Section, Sections, fits_shapes, graph_sections, layer_paths
from onnxfn.check.cuts.runs import SectionedSession, Values, WrittenGraph, run_sections, written_graph
from onnxfn.check.sections.hidden_states import HiddenStates, recorded_hidden_states
from onnxfn.check.variants.proof import NO_PROOF, Proof, variant_measurements
from onnxfn.check.verdict.case_comparisons import CheckedFile
from onnxfn.check.verdict.compare import Exact, compare, token_features, valid_elements
from onnxfn.check.verdict.verdict import Comparison, ExactOutputs, NoReference, precision_of
from onnxfn.models.dtypes import torch_dtype
from onnxfn.models.forward import torch_outputs
from onnxfn.run.sessions import silent_options
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.results.measurements import SectionError
from onnxfn.specs.stored.reports import Report, Tick, no_tick
from onnxfn.weights.chunks import stopped_on_error


@frozen(eq=False)
class RecordedCase:
    """A case with PyTorch's hidden states; `exact` runs PyTorch again for what layers return in a wider dtype."""

    reference: Reference
    hidden: HiddenStates
    exact: Callable[[], HiddenStates]


@frozen(eq=False)
class SectionedFile:
    """A written file with its sections, the paths of its layers, the part that it is for, and the cases."""

    written: WrittenGraph
    sections: Sections
    layers: Sequence[str]
    part: Part
    cases: Sequence[RecordedCase] = field(repr=False)
    session: SectionedSession = field(repr=False)


def check_by_sections(
    model: Any,
    part: Part,
    file: Path,
    *,
    exact: ExactOutputs | None = None,
    proof: Proof = NO_PROOF,
    real_inputs: Mapping[str, Array] | None = None,
    tick: Tick = no_tick,
) -> Report:
    """Compares a file with PyTorch section by section, as `check`, but without texts. InvalidSpec without a chain."""
    of_weights, errors = file_weights(model, part, file, tick)
    checked = compared_file(model, part, file, exact, tick)
    session, of_sections, judged = _judged_sections(checked, real_inputs)
    limits, dtype = stated_limits(file), checked.dtype
    expected = partial(references, model, part, real_inputs, limits=limits, dtype=dtype, tick=tick)
    measurements, of_shapes = variant_measurements(part, session, proof, expected if dtype else None, errors)
    findings = (*of_weights, *judged.findings, *of_shapes)
    unchecked = [f"{file.name}: other side of {each}" for each in trace_conditions(file)]
    return Report(judged.differences, judged.cases, findings, measurements, of_sections, unchecked=unchecked)


def _judged_sections(
    checked: CheckedFile, real_inputs: Mapping[str, Array] | None
) -> tuple[SectionedSession, tuple[SectionError, ...], Report]:
    """A session of the sections, their errors, and the report on the cases of the file. The arrays are released."""
    sectioned = sectioned_file(checked, real_inputs)
    errors, outputs = compared_sections(sectioned, checked.tick)
    pairs = zip((case.reference for case in sectioned.cases), outputs, strict=True)
    return sectioned.session, errors, judged_cases(checked, pairs)


def sectioned_file(checked: CheckedFile, real_inputs: Mapping[str, Array] | None = None) -> SectionedFile:
    """The sections of a file, and the cases, which PyTorch computes. InvalidSpec if there are no sections."""
    model, part, file, tick = checked.model, checked.part, checked.file, checked.tick
    written = written_graph(file, checked.content)
    layers = layer_paths(model, written.initializers)
    with recorded_hidden_states(model, layers) as last_run:
        every = references(model, part, real_inputs, limits=stated_limits(file), dtype=checked.dtype, tick=tick)
        runs = [(reference, last_run()) for reference in every]
    wider = precision_of(checked.dtype or part.spec.target.float_dtype).wider

    def with_exact(reference: Reference) -> HiddenStates:
        with recorded_hidden_states(model, layers, wider) as last_run:
            torch_outputs(model, part, reference.inputs, torch_dtype(checked.dtype))
        return last_run()

    cases = [RecordedCase(reference, hidden, cache(partial(with_exact, reference))) for reference, hidden in runs]
    sections_of = partial(_sections, checked, layers, runs)
    own = written if checked.content is None else written_graph(file)
    session = SectionedSession(own, sections_of(own), tick)
    return SectionedFile(written, sections_of(written), layers, part, cases, session)


def _sections(
    checked: CheckedFile, layers: Sequence[str], runs: Sequence[tuple[Reference, HiddenStates]], written: WrittenGraph
) -> Sections:
    """The sections of a graph, whose values have the shapes of the hidden states in all runs."""
    graph, spec = written.model.graph, checked.part.spec
    fits = [
        fits_shapes(graph, [state.shape for state in hidden.states], symbol_sizes(spec, reference.inputs))
        for reference, hidden in runs
    ]
    of_layers = {each.name for each in (*spec.inputs, *spec.outputs) if each.layer is not None}
    names = checked.model.state_dict(keep_vars=True)
    return graph_sections(graph, layers, names, of_layers, lambda *value: all(each(*value) for each in fits))


def compared_sections(
    sectioned: SectionedFile, tick: Tick = no_tick
) -> tuple[tuple[SectionError, ...], tuple[OutputArrays, ...]]:
    """The errors of all sections with PyTorch's hidden states; the outputs in each case with those of the file."""
    cases, hidden = sectioned.cases, sectioned.sections.hidden
    feeds = [dict(case.reference.inputs) for case in cases]
    from_torch = (dict(zip(hidden, case.hidden.states, strict=True)) for case in cases)
    replaced: list[Values] = [*from_torch, *({} for _ in cases)]
    run_options = silent_options("RunOptions")
    planned_outputs: list[dict[str, Array]] = [{} for _ in cases]
    errors: list[SectionError] = []
    with stopped_on_error(partial(setattr, run_options, "terminate", True)):
        runs = run_sections(sectioned.written, sectioned.sections, feeds * 2, replaced, run_options, tick)
        for section, outputs in runs:
            # Each array is released before the next case runs: in the head they are the logits.
            alone: list[Comparison] = []
            for case, values in zip(cases, islice(outputs, len(cases)), strict=True):
                alone += _comparisons(sectioned, case, values, tick)
            handed_on: list[float] = []
            for case, planned, values in zip(cases, planned_outputs, outputs, strict=True):
                planned |= {name: array for name, array in values.items() if name in sectioned.part.outputs}
                handed_on += _handed_on_errors(sectioned, case, values)
            errors += [_section_error(sectioned, section, alone, handed_on)] if alone else []
    return tuple(errors), tuple(tuple(each[name] for name in sectioned.part.outputs) for each in planned_outputs)


def _section_error(
    sectioned: SectionedFile, section: Section, comparisons: Sequence[Comparison], handed_on: Sequence[float]
) -> SectionError:
    """The error of a section against PyTorch in its worst case."""
    worst = max(comparisons, key=lambda each: (not each.passed, each.of_bound))
    return SectionError(
        part=sectioned.part.name,
        section=section.name,
        output=worst.output,
        max_abs=worst.max_abs,
        tolerance=worst.tolerance,
        worst_case=worst.case,
        passed=all(each.passed for each in comparisons),
        handed_on=max(handed_on, default=None),
    )


def _comparisons(sectioned: SectionedFile, case: RecordedCase, values: Values, tick: Tick) -> Iterator[Comparison]:
    """The comparisons of the outputs of a section in a case: hidden states and planned outputs."""
    reference, spec = case.reference, sectioned.part.spec
    planned = dict(zip(sectioned.part.outputs, reference.outputs, strict=True))
    for name, actual in values.items():
        if name in sectioned.sections.hidden:
            index = sectioned.sections.hidden.index(name)
            expected = case.hidden.states[index]
            exact = Exact(partial(exact_result, case, index - 1)) if index else Exact()
            select = token_features(spec, expected.shape, reference.inputs)
            yield compare(spec, name, reference.case, real_array(actual), expected, select, exact, tick=tick)
        elif name in planned:
            select = valid_elements(spec, spec.outputs[name], reference.inputs)
            yield compare(spec, name, reference.case, actual, planned[name], select, tick=tick)


def exact_result(case: RecordedCase, layer: int) -> tuple[str, Array]:
    """The result of a layer in a wider dtype, and the name of this dtype. NoReference if it cannot run in one."""
    array = case.exact().exact[layer]
    if array is None:
        raise NoReference("the layer does not run in a wider dtype, or another tensor than it returns goes on")
    return ("float64" if array.dtype == np.float64 else "float32"), array


def real_array(array: Array) -> Array:
    """Hidden states as float32, as PyTorch's are recorded."""
    return array if array.dtype == np.float64 else array.astype(np.float32)


def _handed_on_errors(sectioned: SectionedFile, case: RecordedCase, values: Values) -> list[float]:
    """The largest differences of hidden states from PyTorch's in a case, with the errors of all sections before."""
    return [
        float(np.abs(select(real_array(actual)) - select(expected)).max(initial=0.0))
        for name, expected in zip(sectioned.sections.hidden, case.hidden.states, strict=True)
        if (actual := values.get(name)) is not None and actual.shape == expected.shape
        for select in [token_features(sectioned.part.spec, expected.shape, case.reference.inputs)]
    ]

"""The layers of a large model on a far text, which is longer than the thresholds of its configuration.

The whole model would take too long. Two layers of each kind are compared, one after the other: each reads what PyTorch
computes, without the layers between them and without the head. The past is that of the file, so that both continue from
the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from onnxfn.check.cases.references import CheckCase, Reference, case_label
from onnxfn.check.cuts.cut import EMBEDDING, SHARED, Section, Sections
from onnxfn.check.cuts.recorded_tensors import real_tensors
from onnxfn.check.cuts.runs import in_type, run_sections
from onnxfn.check.sections.check import RecordedCase, SectionedFile, exact_result, real_array, sectioned_file
from onnxfn.check.sections.hidden_states import HiddenStates, recorded_hidden_states
from onnxfn.check.sections.layer_kinds import layers_of_each_kind
from onnxfn.check.variants.proof import variant_kind
from onnxfn.check.verdict.case_comparisons import CheckedFile
from onnxfn.check.verdict.compare import Exact, compare, token_features
from onnxfn.check.verdict.verdict import Comparison, exact_outputs, precision_of
from onnxfn.models.forward import torch_outputs
from onnxfn.models.patching import replaced
from onnxfn.specs.algebra.dummies import Array, dummies
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.axes import symbols
from onnxfn.specs.errors import CaptureFailed, InvalidSpec, OnnxfnError
from onnxfn.specs.plan.check_cases import cases, past_lengths
from onnxfn.specs.stored.reports import Report, Tick, no_tick


class LastLayerRan(OnnxfnError):
    """Ends a run of PyTorch after the last chosen layer."""


@frozen(eq=False)
class ChosenLayers:
    """The layers of a file that read far texts.

    Attributes:
        model: The PyTorch model.
        part: The part of the file.
        sectioned: The sections of the file.
        indices: The chosen ones of its layers.
        paths: Their paths.
    """

    model: Any
    part: Part
    sectioned: SectionedFile = field(repr=False)
    indices: Sequence[int]
    paths: Sequence[str]


def far_text_report(model: Any, part: Part, file: Path, far: Sequence[CheckCase], *, tick: Tick = no_tick) -> Report:
    """The cases and the faults of chosen layers on far texts, which are too dear for the whole model.

    None for quantized and 16-bit files, and if the layers form no chain or do not run without the others.
    """
    if variant_kind(part.spec) is not None:
        return Report((), ())
    try:
        comparisons = tuple(_comparisons(_chosen_layers(model, part, file, tick), far, tick))
    except (CaptureFailed, InvalidSpec):
        comparisons = ()
    cases = dict.fromkeys(each.case for each in comparisons)
    return Report((), cases, [_finding(part, each) for each in comparisons if not each.passed])


def _finding(part: Part, each: Comparison) -> str:
    error, allowed = f"{each.max_abs:.2e}", f"{each.tolerance:.1e}"
    where = f"the hidden states after {each.output} are {error} away from PyTorch"
    return f"{part.name}: {where} at {each.case} (allowed are {allowed})"


def _chosen_layers(model: Any, part: Part, file: Path, tick: Tick) -> ChosenLayers:
    """The layers of each kind in a file. InvalidSpec if the layers form no chain."""
    first = evolve(part, spec=evolve(part.spec, cases=cases(part.spec)[:1]))
    exact = exact_outputs(model, part.spec.target.float_dtype)
    sectioned = sectioned_file(CheckedFile(model, first, file, exact, tick))
    of_layers = {each.name for each in part.spec.inputs if each.layer is not None}
    indices = layers_of_each_kind(sectioned.written, sectioned.sections, sectioned.layers, of_layers)
    return ChosenLayers(model, part, sectioned, indices, [sectioned.layers[index] for index in indices])


def _comparisons(chosen: ChosenLayers, far: Sequence[CheckCase], tick: Tick) -> Iterator[Comparison]:
    """The comparisons in each case; a past is what the layers of the file computed for the text of the case before."""
    feedback, past = {each.output: each.input for each in chosen.part.spec.feedback}, dict[str, Array]()
    for case in far:
        inputs = _with_past(case, past)
        recorded = _recorded(chosen, case, inputs)
        for section, values in _section_runs(chosen, recorded, tick):
            yield from _compared(chosen, recorded, section, values, tick)
            past |= {feedback[name]: array for name, array in values.items() if name in feedback}


def _with_past(case: CheckCase, past: Mapping[str, Array]) -> dict[str, Array]:
    """The inputs of a case, with the first tokens of a past."""
    inputs, lengths = dummies(case.spec, {}, seed=case.seed), past_lengths(case.spec)
    for input_ in case.spec.inputs:
        own = inputs[input_.name]
        of_past = [axis for axis, symbol in symbols(input_.axes).items() if symbol in lengths]
        sizes = (own.shape[axis] if axis in of_past else None for axis in range(own.ndim))
        array = past.get(input_.name, own)[tuple(map(slice, sizes))]
        inputs[input_.name] = array.astype(own.dtype, copy=False)
    return inputs


def _recorded(chosen: ChosenLayers, case: CheckCase, inputs: Mapping[str, Array]) -> RecordedCase:
    """A case with the hidden states of the chosen layers in PyTorch."""
    dtype = chosen.part.spec.target.float_dtype
    numbers = f"{', '.join(map(str, chosen.indices))} of {len(chosen.sectioned.layers)}"
    label = f"{case_label(chosen.part.spec, case.name, inputs)}, layers {numbers}"
    run = partial(_hidden_states, chosen, inputs)
    return RecordedCase(Reference(label, inputs, ()), run(()), cache(partial(run, precision_of(dtype).wider)))


def _hidden_states(chosen: ChosenLayers, inputs: Mapping[str, Array], wider: Sequence[str]) -> HiddenStates:
    """The hidden states between the chosen layers; PyTorch runs no other layer, and no head."""
    with recorded_hidden_states(chosen.model, chosen.paths, wider) as last_run, _only(chosen):
        with suppress(LastLayerRan):
            torch_outputs(chosen.model, chosen.part, inputs)
        return last_run()


@contextmanager
def _only(chosen: ChosenLayers) -> Iterator[None]:
    """Lets hidden states pass by the other layers, in the form in which the chosen return them, and ends the run."""
    results: list[Any] = []

    def passed(*arguments: Any, **named: Any) -> Any:
        hidden, last = next(real_tensors((arguments, named))), results[-1]
        return type(last)((hidden, *last[1:])) if isinstance(last, (tuple, list)) else hidden

    def leave(path: str, _: Any, __: Any, result: Any) -> None:
        results.append(result)
        if path == chosen.paths[-1]:
            raise LastLayerRan(path)

    with ExitStack() as undo:
        for path in chosen.sectioned.layers:
            module = chosen.model.get_submodule(path)
            if path in chosen.paths:
                undo.callback(module.register_forward_hook(partial(leave, path)).remove)
            else:
                undo.enter_context(replaced(module, "forward", passed))
        yield


def _section_runs(
    chosen: ChosenLayers, recorded: RecordedCase, tick: Tick
) -> Iterator[tuple[Section, Mapping[str, Array]]]:
    """Each chosen section of the file with its outputs, computed from PyTorch's hidden states."""
    written, sections = chosen.sectioned.written, chosen.sectioned.sections
    own = [each for each in sections.sections if each.name in {SHARED, EMBEDDING, *chosen.paths}]
    states = {
        sections.hidden[index]: in_type(written, sections.hidden[index], state)
        for index, state in zip(chosen.indices, recorded.hidden.states, strict=False)
    }
    feeds = {**recorded.reference.inputs, **states}
    for section, [values] in run_sections(written, Sections(tuple(own), sections.hidden), [feeds], [states], tick=tick):
        yield section, values


def _compared(
    chosen: ChosenLayers, recorded: RecordedCase, section: Section, values: Mapping[str, Array], tick: Tick
) -> Iterator[Comparison]:
    """The comparison of the hidden states that a section computes."""
    spec, reference, hidden = chosen.part.spec, recorded.reference, chosen.sectioned.sections.hidden
    number = {path: number for number, path in enumerate((EMBEDDING, *chosen.paths))}.get(section.name)
    if number is None:
        return
    name = hidden[chosen.indices[number - 1] + 1] if number else hidden[0]
    expected = recorded.hidden.states[number]
    exact = Exact(partial(exact_result, recorded, number - 1)) if number else Exact()
    select = token_features(spec, expected.shape, reference.inputs)
    actual = real_array(values[name])
    yield compare(spec, section.name, reference.case, actual, expected, select, exact, tick=tick)

"""A model that runs only some of its layers, and the hidden states between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from onnxfn.check.cuts.recorded_tensors import real_tensors
from onnxfn.check.sections.check import SectionedFile, sectioned_file
from onnxfn.check.sections.hidden_states import HiddenStates, first_array, recorded_hidden_states
from onnxfn.check.sections.layer_kinds import layers_of_each_kind
from onnxfn.check.verdict.case_comparisons import CheckedFile
from onnxfn.check.verdict.verdict import exact_outputs
from onnxfn.models.forward import torch_outputs
from onnxfn.models.patching import replaced
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.errors import OnnxfnError
from onnxfn.specs.plan.check_cases import cases
from onnxfn.specs.stored.reports import Tick


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


def chosen_layers(model: Any, part: Part, file: Path, tick: Tick) -> ChosenLayers:
    """The layers of each kind in a file. InvalidSpec if the layers form no chain."""
    first = evolve(part, spec=evolve(part.spec, cases=cases(part.spec)[:1]))
    exact = exact_outputs(model, part.spec.target.float_dtype)
    sectioned = sectioned_file(CheckedFile(model, first, file, exact, tick))
    of_layers = {each.name for each in part.spec.inputs if each.layer is not None}
    indices = layers_of_each_kind(sectioned.written, sectioned.sections, sectioned.layers, of_layers)
    return ChosenLayers(model, part, sectioned, indices, [sectioned.layers[index] for index in indices])


def hidden_states(chosen: ChosenLayers, inputs: Mapping[str, Array], wider: Sequence[str]) -> HiddenStates:
    """The hidden states between the chosen layers; PyTorch runs no other layer, and no head."""
    with recorded_hidden_states(chosen.model, chosen.paths, wider) as last_run, _only(chosen):
        with suppress(LastLayerRan):
            torch_outputs(chosen.model, chosen.part, inputs)
        return last_run()


def layer_results(chosen: ChosenLayers, inputs: Mapping[str, Array], states: Sequence[Array]) -> tuple[Array, ...]:
    """What each chosen layer returns for its own hidden states."""
    with _only(chosen, states) as results:
        with suppress(LastLayerRan):
            torch_outputs(chosen.model, chosen.part, inputs)
        return tuple(map(first_array, results))


@contextmanager
def _only(chosen: ChosenLayers, states: Sequence[Array] = ()) -> Iterator[list[Any]]:
    """Lets hidden states pass by the other layers, in the form in which the chosen return them, and ends the run.

    Yields the results of the chosen layers so far. With `states`, these are the hidden states that they get.
    """
    results: list[Any] = []

    def passed(*arguments: Any, **named: Any) -> Any:
        hidden, last = next(real_tensors((arguments, named))), results[-1]
        return type(last)((hidden, *last[1:])) if isinstance(last, (tuple, list)) else hidden

    def enter(_: Any, arguments: Any, named: Any) -> Any:
        before = next(real_tensors((arguments, named)))
        own = before.new_tensor(states[len(results)])
        first = tuple(own if each is before else each for each in arguments)
        return first, {name: own if each is before else each for name, each in named.items()}

    def leave(path: str, _: Any, __: Any, result: Any) -> None:
        results.append(result)
        if path == chosen.paths[-1]:
            raise LastLayerRan(path)

    with ExitStack() as undo:
        for path in chosen.sectioned.layers:
            module = chosen.model.get_submodule(path)
            if path not in chosen.paths:
                undo.enter_context(replaced(module, "forward", passed))
                continue
            undo.callback(module.register_forward_hook(partial(leave, path)).remove)
            if states:
                undo.callback(module.register_forward_pre_hook(enter, with_kwargs=True).remove)
        yield results

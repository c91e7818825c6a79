"""A model that runs only some of its layers, and the hidden states between them."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen
from toolz import groupby, interleave

from onnxfn.check.cuts.cut import Section, Sections
from onnxfn.check.cuts.recorded_tensors import real_tensors
from onnxfn.check.cuts.runs import WrittenGraph
from onnxfn.check.cuts.vertices import read_names
from onnxfn.check.sections.check import SectionedFile, sectioned_file
from onnxfn.check.sections.hidden_states import HiddenStates, recorded_hidden_states
from onnxfn.check.verdict.case_comparisons import CheckedFile
from onnxfn.check.verdict.verdict import exact_outputs
from onnxfn.graphs.passes.merging import PREFIX
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
    """The layers of a file that read far texts: their indices among its layers, and their paths."""

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
    with recorded_hidden_states(chosen.model, chosen.paths, wider) as last_run:
        layer_results(chosen, inputs)
        return last_run()


def layer_results(chosen: ChosenLayers, inputs: Mapping[str, Array], states: Sequence[Array] = ()) -> list[Any]:
    """The results of the chosen layers in a run that ends after the last; with `states`, for these hidden states."""
    results: list[Any] = []

    # Hidden states pass by the other layers, in the form in which the chosen return them.
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
        with suppress(LastLayerRan):
            torch_outputs(chosen.model, chosen.part, inputs)
    return results


OF_EACH_KIND, MOST_LAYERS = 2, 8
"""How many layers of a kind are chosen, and how many in all: layers that all differ would be the whole model."""


def layers_of_each_kind(
    written: WrittenGraph, sections: Sections, layers: Sequence[str], of_layers: Collection[str]
) -> tuple[int, ...]:
    """The indices of the first layers of each kind, in their order. `of_layers` are the inputs of single layers."""
    by_name, hidden = {section.name: section for section in sections.sections}, {*sections.hidden}
    kinds = groupby(lambda index: _kind(written, by_name[layers[index]], hidden, of_layers), range(len(layers)))
    return tuple(sorted(islice(interleave(members[:OF_EACH_KIND] for members in kinds.values()), MOST_LAYERS)))


def _kind(
    written: WrittenGraph, section: Section, hidden: Collection[str], of_layers: Collection[str]
) -> tuple[Hashable, ...]:
    """The nodes of a layer, with names that layers of one kind share: constants and shared values keep their own."""
    numbers: dict[str, int] = {}

    def shared_name(name: str) -> Hashable:
        if name in hidden:
            return "hidden states"
        weight = written.initializers.get(name)
        if weight is not None:
            return _weight(weight, section.name)
        return numbers.setdefault(name, len(numbers)) if name in own or name in of_layers else name

    nodes = [written.model.graph.node[index] for index in section.nodes]
    own = {name for node in nodes for name in node.output}
    return tuple((_operator(node), *map(shared_name, (*read_names(node), *node.output))) for node in nodes)


def _weight(weight: Any, layer: str) -> Hashable:
    """The name of a weight inside its layer, its shape and its type; the content of a constant."""
    name = weight.name.removeprefix(PREFIX)
    if name.startswith(f"{layer}."):
        return name.removeprefix(layer), tuple(weight.dims), weight.data_type
    content = type(weight).FromString(weight.SerializeToString())
    content.ClearField("name")
    return bytes(content.SerializeToString())


def _operator(node: Any) -> Hashable:
    """The operator of a node and its attributes; a branch or a loop by its operators."""
    bodies = (body for attribute in node.attribute for body in (attribute.g, *attribute.graphs))
    inner = tuple(each.op_type for body in bodies for each in body.node)
    plain = tuple(each.SerializeToString() for each in node.attribute if not (each.graphs or each.HasField("g")))
    return node.domain, node.op_type, tuple(sorted(plain)), inner

"""Cases of texts beside large images: the first case computes the images, and the next ones take its values.

A model that compares texts with images or videos computes both apart, and then compares them. A case with other texts
and with images of the same sizes shows nothing new of the images. So it gets the images of the first case. In PyTorch,
the modules that take the images alone return what they returned there. In the graph, the outputs of the images are
inputs, and have PyTorch's values, which the first case has compared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from functools import partial
from typing import Any

from attrs import frozen

from onnxfn.check.cases import CheckCase
from onnxfn.check.layer_calls import restored_forward
from onnxfn.check.references import Reference
from onnxfn.check.sections.hidden_states import tensors_in
from onnxfn.check.sections.runs import WrittenGraph
from onnxfn.check.sections.vertices import OF_SHAPES, read_names
from onnxfn.specs.axes import shape
from onnxfn.specs.dummies import Array, known_sizes
from onnxfn.specs.errors import CaptureFailed
from onnxfn.specs.planned import PlannedSpec

FED = "of first case: "
"""The beginning of the name of a graph input that has the values of an output."""


@frozen(eq=False)
class ImageCall:
    """A call of a module that takes images and no other tensor: the images, and what it returned."""

    images: Any
    result: Any


RecordedCalls = Mapping[str, ImageCall | None]
"""From the paths of modules to their calls. None: it was called several times."""


@frozen(eq=False)
class FirstImages:
    """The images of the first case, and what was computed with them.

    Attributes:
        inputs: The inputs that are images.
        calls: The calls of the modules of PyTorch that take them alone.
        content: The bytes of the ONNX model in which the outputs for them are inputs.
        fed: The arrays of these inputs.
    """

    inputs: Mapping[str, Array]
    calls: Mapping[str, ImageCall]
    content: bytes
    fed: Mapping[str, Array]


def image_names(spec: PlannedSpec) -> tuple[str, ...]:
    """The inputs of real numbers of a spec that has other inputs, too; none if these are all."""
    images = tuple(input_.name for input_ in spec.inputs if "float" in input_.kind)
    return images if len(images) < len(spec.inputs) else ()


def image_shapes(spec: PlannedSpec) -> tuple[tuple[int, ...], ...]:
    """The shapes of the images of a case."""
    sizes, images = known_sizes(spec, {}), image_names(spec)
    return tuple(tuple(shape(input_.axes, sizes)) for input_ in spec.inputs if input_.name in images)


@contextmanager
def recorded_images(model: Any, shapes: Collection[tuple[int, ...]]) -> Iterator[RecordedCalls]:
    """A context in which the calls of modules that take a tensor of such a shape, and no other, are recorded.

    It yields the calls so far. Of modules inside one another, the outermost is recorded; the model itself is not.
    """
    calls: dict[str, ImageCall | None] = {}

    def leave(path: str, _: Any, arguments: Any, named: Any, result: Any) -> None:
        tensors = tensors_in((arguments, named))
        if [tuple(tensor.shape) for tensor in tensors] in [[each] for each in shapes]:
            for inner in [each for each in calls if each.startswith(f"{path}.")]:
                del calls[inner]
            calls[path] = None if path in calls else ImageCall(tensors[0], result)

    with ExitStack() as hooks:
        for path, module in model.named_modules() if shapes else ():
            if path:
                hooks.callback(module.register_forward_hook(partial(leave, path), with_kwargs=True).remove)
        yield calls


def first_images(
    written: WrittenGraph, spec: PlannedSpec, recorded: RecordedCalls, first: Reference
) -> FirstImages | None:
    """The images of the first case; None if a case cannot take their values from it.

    The outputs for the images have to be all that the graph computes with them alone, and that texts are compared with.
    """
    names = image_names(spec)
    outputs = dict(zip((output.name for output in spec.outputs), first.outputs, strict=True))
    of_images = _of_images(written.model.graph, names)
    fed = {f"{FED}{name}": array for name, array in outputs.items() if name in of_images}
    calls = {path: call for path, call in recorded.items() if call is not None}
    content = _with_fed(written, names, [name for name in outputs if name in of_images])
    if not fed or not calls or len(calls) < len(recorded) or content is None:
        return None
    return FirstImages({name: first.inputs[name] for name in names}, calls, content, fed)


def _of_images(graph: Any, images: Collection[str]) -> set[str]:
    """The values of a graph that depend on images, and on no other input."""
    others = {each.name for each in graph.input} - {each.name for each in graph.initializer} - {*images}
    only, mixed = {*images}, others
    for node in graph.node:
        read = {*read_names(node)}
        if read & mixed:
            mixed.update(node.output)
        elif read & only:
            only.update(node.output)
    return only - {*images}


def _with_fed(written: WrittenGraph, images: Collection[str], fed: Sequence[str]) -> bytes | None:
    """The ONNX model in which outputs are inputs, too; None if it still reads elements of the images."""
    import onnx

    graph = written.model.graph
    needed, nodes = {output.name for output in graph.output} - {*fed}, list[Any]()
    for node in reversed(graph.node):
        if not needed.isdisjoint(node.output) and not {*node.output} <= {*fed}:
            nodes.append(node)
            needed.update(read_names(node))
    reads = any(node.op_type not in OF_SHAPES and not {*images}.isdisjoint(read_names(node)) for node in nodes)
    if reads or any(not {*fed}.isdisjoint(node.output) for node in nodes):
        return None
    identities = [onnx.helper.make_node("Identity", [f"{FED}{name}"], [name]) for name in fed]
    inputs = [onnx.ValueInfoProto() for _ in fed]
    for value, name in zip(inputs, fed, strict=True):
        value.CopyFrom(next(output for output in graph.output if output.name == name))
        value.name = f"{FED}{name}"
    return written.with_nodes([*identities, *reversed(nodes)], inputs)


def has_images_of(case: CheckCase, first: FirstImages) -> bool:
    """Whether a case can take the images of the first one: it has images of the same sizes."""
    return image_shapes(case.spec) == tuple(array.shape for array in first.inputs.values())


@contextmanager
def with_first_images(model: Any, calls: Mapping[str, ImageCall]) -> Iterator[None]:
    """A context in which modules return what they returned for the images of the first case.

    CaptureFailed, when the model runs, if one of them is called with something else.
    """
    with ExitStack() as restored:
        for path, call in calls.items():
            own = restored.enter_context(restored_forward(model, path))
            own["forward"] = partial(_result, path, call)
        yield


def _result(path: str, call: ImageCall, *arguments: Any, **named: Any) -> Any:
    """What a module returned, in the dtype of the images that it is called with."""
    import torch

    tensors = tensors_in((arguments, named))
    if len(tensors) != 1 or not torch.equal(tensors[0].to(call.images.dtype), call.images):
        raise CaptureFailed(f"{path} takes other images than in the first case")
    return _in_dtype(tensors[0].dtype, call.result)


def _in_dtype(dtype: Any, value: Any) -> Any:
    """The result of a module, with its real numbers in a dtype."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, Mapping):
        converted: Any = copy(value)
        for key, item in value.items():
            converted[key] = _in_dtype(dtype, item)
        return converted
    return type(value)(_in_dtype(dtype, item) for item in value) if type(value) in (tuple, list) else value

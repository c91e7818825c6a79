"""Facts: functions that return small specs of one fact each, for `compose`."""

from __future__ import annotations

from onnxfn.specs.algebra.compose import compose
from onnxfn.specs.algebra.spec import Call, Check, ExportSpec, Overlay, Parts
from onnxfn.specs.axes import AxisMap
from onnxfn.specs.axis_symbols import AxisFacts
from onnxfn.specs.converters import Path, plain_number
from onnxfn.specs.records import ArgumentBuilder, Constant, InputSpec, Kind, Link, OutputSpec, Patch, Plain, Source

TOKENS = "batch_size sequence_length"
"""The axes of a batch of texts."""

SOURCE = "batch_size encoder_sequence_length"
"""The axes of a batch of texts that an encoder reads."""

TARGET = "batch_size decoder_sequence_length"
"""The axes of a batch of texts that a decoder writes."""


def takes(
    name: str, axes: str | AxisMap, generator: str, *, kind: Kind = "int", path: Path = (), when: Source | None = None
) -> ExportSpec:
    """A spec of one input.

    Args:
        name: Its name in ONNX.
        axes: Its axes, as a pattern: a name is a dynamic axis, a number a static one, `name=` is read from the
            configuration, `a+b` is a sum of sizes.
        generator: The name of the generator of its dummies: of one that `generates` adds, or a function that needs no
            arguments: `normal`, `uniform`, `mask`, `positions`.
        kind: `int`, `float` or `bool`, or a dtype of its own: `uint8`, `int32`, `float64`, ...
        path: Where it sits in the arguments of `forward`; the argument of the same name when left out.
        when: A condition on the configuration: an attribute path or a getter. The input exists when the value is true.

    Raises:
        InvalidSpec: the pattern is not one, or `path` is a text.

    >>> print(takes("input_ids", "batch_size sequence_length", "token_ids"))
    spec of 1 input
      inputs
        input_ids  int[batch_size, sequence_length]  token_ids
    """
    return ExportSpec(inputs=(InputSpec(name, axes, generator, kind, path, when),))


def gives(
    name: str, axes: str | AxisMap, *, path: Path = (), when: Source | None = None, kind: Kind | None = None
) -> ExportSpec:
    """A spec of one output.

    Args:
        name: Its name in ONNX.
        axes: Its axes, as a pattern; `_` is an axis of one size, which the spec does not name.
        path: Where it sits in the result of `forward`; the field of the same name when left out.
        when: A condition on the configuration; the output exists when the value is true.
        kind: `float`, `int`, or a dtype of its own: `bool`, `int64`, ... The export fails if the graph has another.
            When left out, the plan shows a dtype for the usual names alone.

    Raises:
        InvalidSpec: the pattern is not one, or `path` is a text.
        UnknownName: there is no such kind.

    >>> gives("logits", "batch_size _").outputs[0].forward_path
    ('logits',)
    """
    return ExportSpec(outputs=(OutputSpec(name, axes, path, when, kind=kind),))


def case(name: str, *specs: ExportSpec) -> ExportSpec:
    """A spec of one more case of the check.

    Args:
        name: The name of the case in reports.
        specs: What differs from the traced sample: `sized(...)`, `padded(...)`, `generates(...)`.

    >>> from onnxfn import sized
    >>> [overlay.name for overlay in case("one", sized(batch_size=1)).cases]
    ['one']
    """
    return ExportSpec(cases=(Overlay(name, compose(*specs)),))


def always(**arguments: Plain) -> ExportSpec:
    """A spec of arguments that `forward` always gets and that the graph does not take.

    Args:
        arguments: The arguments. `forward` accepts them, or the export fails; not `return_dict`, `use_cache` and such.

    >>> always(use_cache=False).call.constants
    (Constant(name='use_cache', value=False),)
    """
    return ExportSpec(call=Call(constants=tuple(Constant(key, plain_number(each)) for key, each in arguments.items())))


def patched(target: str, *, by: str, why: str) -> ExportSpec:
    """A spec of one function that is replaced while the model is traced.

    Args:
        target: The function to replace: `package.module:Class.method`.
        by: The replacement: `package.module:function`, or `file.function` of architectures/patches.
        why: Why the model cannot be traced without it.

    >>> patched("transformers.models.fnet:f", by="fnet.fourier", why="no FFT in ONNX").call.patches[0].by
    'fnet.fourier'
    """
    return ExportSpec(call=Call(patches=(Patch(target, by, why),)))


def runs(submodule: str) -> ExportSpec:
    """A spec that runs a callable inside the model instead of the model itself.

    Args:
        submodule: `self.encoder`, a submodule or a method of the model; or a function from the model to the callable:
            `encoder`, `token_embeddings`, `file.function` of architectures/wrappers, `package.module:function`.

    >>> runs("encoder").call.submodule
    'encoder'
    """
    return ExportSpec(call=Call(submodule=submodule))


def builds(argument: str, by: str) -> ExportSpec:
    """A spec of an argument of `forward` that is an object, built from the tensors whose path starts with it.

    Args:
        argument: The argument.
        by: A function of models/argument_builders.py: `dynamic_cache`, `encoder_output`, ...

    >>> builds("past_key_values", "dynamic_cache").call.builders[0].by
    'dynamic_cache'
    """
    return ExportSpec(call=Call(builders=(ArgumentBuilder(argument, by),)))


def loads(loader: str) -> ExportSpec:
    """A spec whose model is loaded by a class of transformers.

    Args:
        loader: The name of the class: `AutoModelForMaskedLM`.

    >>> loads("AutoModel").call.loader
    'AutoModel'
    """
    return ExportSpec(call=Call(loader=loader))


def checks(*, atol: float | None = None, rtol: float | None = None, mask_input: str | None = None) -> ExportSpec:
    """A spec of how outputs are compared with PyTorch's; what is None stays as it is.

    Args:
        atol: Absolute tolerance, in place of the rule by PyTorch's own error: see `with_tolerance`.
        rtol: Relative tolerance.
        mask_input: The input that masks padding; outputs at padding are not compared.

    Raises:
        InvalidSpec: a tolerance is below 0, infinite or not a number.

    >>> checks(atol=1e-4).check
    Check(atol=0.0001)
    """
    return ExportSpec(check=Check(atol=plain_number(atol), rtol=plain_number(rtol), mask_input=mask_input))


def fixes(name: str, value: int | Source, *, when: Source | None = None) -> ExportSpec:
    """A spec of an axis that is static in the graph.

    Args:
        name: The axis symbol.
        value: Its size, or where the configuration keeps it.
        when: A condition on the configuration; the axis is fixed when the value is true.

    >>> print(fixes("height", "image_size").axes["height"])
    height is image_size
    """
    return ExportSpec(axes=(AxisFacts(name, low=value, high=value, when=when),))


def links(name: str, *, part: str, output: str) -> ExportSpec:
    """A spec of an input that another part of the plan computes.

    Args:
        name: The input.
        part: The other part: `encoder_model`.
        output: Its output, or an input that both parts share.

    >>> links("encoder_hidden_states", part="encoder_model", output="last_hidden_state").parts.links[0].part
    'encoder_model'
    """
    return ExportSpec(parts=Parts(links=(Link(name, part, output),)))


def serves(task: str, *specs: ExportSpec) -> ExportSpec:
    """A spec of one task with these outputs alone; `tasked` also adds the task's usual outputs.

    Args:
        task: The task.
        specs: What the task adds to the spec.

    >>> serves("feature-extraction", gives("image_embeds", "batch_size _")).tasks[0].name
    'feature-extraction'
    """
    return ExportSpec(tasks=(Overlay(task, compose(*specs)),))

"""ExportSpec, the groups of its fields, overlays, and changes of every spec inside a spec. See compose.py for joins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import inf
from typing import Any, Literal

from attrs import evolve, field

from onnxfn.specs import records
from onnxfn.specs.axis_symbols import AxisFacts
from onnxfn.specs.conditions import Condition
from onnxfn.specs.converters import as_tuple
from onnxfn.specs.errors import InvalidSpec, refuse_unknown
from onnxfn.specs.named_records import Named, by_name
from onnxfn.specs.quantization import WeightRule, unique_rules
from onnxfn.specs.record import record
from onnxfn.specs.results import printing

Past = Literal["inputs", "outputs", "both"]
"""The sides of a graph on which its cache is."""

IntDtype = Literal["int64", "int32"]
FloatDtype = Literal["float32", "float16", "bfloat16", "float64"]

OPSETS = range(18, 29)
"""The opsets of ONNX that a graph can have: torch's exporter translates to the first, ONNX 1.23 defines the last."""


def known_opset(_: Any, __: Any, opset: Any) -> None:
    """Raises InvalidSpec if an opset is not one of OPSETS; None is one that the spec leaves open."""
    if opset is not None and (not isinstance(opset, int) or opset not in OPSETS):
        raise InvalidSpec(f"no opset {opset!r}; possible: {OPSETS[0]} to {OPSETS[-1]}")


def known_tolerance(record: Any, attribute: Any, value: Any) -> None:
    """Raises InvalidSpec if a tolerance is negative, infinite or NaN; None is one that the spec leaves open."""
    if isinstance(value, (int, float)) and not 0 <= value < inf:
        name = f"{attribute.name} of {type(record).__name__}"
        raise InvalidSpec(f"{name} is {value}; a tolerance is a number, 0 or more, and not infinite")


def _order(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The names as a tuple; None for no names."""
    return None if names is None else as_tuple(names) or None


@record(kw_only=True)
class Dummies:
    """How dummy tensors are made.

    Attributes:
        generators: The generators that inputs refer to. The sizes are those of `axes`.
    """

    generators: Named[records.Generator] = field(default=Named((), "generator"), converter=by_name)


@record(kw_only=True)
class Call:
    """How the model is loaded and called.

    Attributes:
        loader: The class of transformers that loads the model: `AutoModelForMaskedLM`.
        submodule: The callable inside the model that runs: a name of models/submodules.py. None is the model.
        constants: Arguments that `forward` always gets.
        builders: Arguments that are objects built from tensors.
        patches: Functions that are replaced while the model is traced.
        attention: The attention implementation, such as `eager`; None leaves the model's own.
    """

    loader: str | None = None
    submodule: str | None = None
    constants: Named[records.Constant] = field(default=Named((), "constant"), converter=by_name)
    builders: Named[records.ArgumentBuilder] = field(default=Named((), "builder"), converter=by_name)
    patches: Named[records.Patch] = field(default=Named((), "patch"), converter=by_name, metadata={"join": "patches"})
    attention: str | None = None


@record(kw_only=True)
class Cache:
    """The cache of a model, and on which sides of the graph it is.

    Attributes:
        rows: The kinds of tensors that each layer stores.
        past: `inputs`, `outputs` or `both`; None when the graph has no cache.
    """

    rows: Named[records.CacheRow] = field(default=Named((), "cache row"), converter=by_name)
    past: Past | None = None


@record(kw_only=True)
class Check:
    """How outputs are compared with PyTorch's.

    Attributes:
        atol: Absolute tolerance. None, for both: a multiple of PyTorch's own rounding error is allowed.
        rtol: Relative tolerance.
        mask_input: The input that masks padding; outputs at padding are not compared.
    """

    atol: float | None = field(default=None, validator=known_tolerance)
    rtol: float | None = field(default=None, validator=known_tolerance)
    mask_input: str | None = None


@record(kw_only=True)
class Target:
    """What the graph is written for.

    Attributes:
        opset: The ONNX opset, 18 to 28.
        int_dtype: The type of integer inputs: `int64` or `int32`.
        float_dtype: The type of weights and float tensors: `float32`, `float16`, `bfloat16` or `float64`.
        io_dtype: The type of float inputs and outputs that are no cache, if it is another one: the graph casts them.
        input_order: The inputs that come first, in this order; None leaves the order of the spec.
        quantization: The rules for weights that are stored in fewer bits. The last rule that selects a weight wins.
        adapter_inputs: The linear layers for which the graph takes a LoRA adapter: names, or their ends.
        shared_cache: Whether past and present may lie in one buffer that is longer than the text. False: they never
            can, because the attention is another one than GroupQueryAttention computes.
        static_cache: The length of the buffers that hold keys and values; None where they grow.
        provider: The profile of the program that runs the graph; see `for_provider`.
    """

    opset: int | None = field(default=None, validator=known_opset)
    int_dtype: IntDtype | None = None
    float_dtype: FloatDtype | None = None
    io_dtype: FloatDtype | None = None
    input_order: tuple[str, ...] | None = field(default=None, converter=_order)
    quantization: tuple[WeightRule, ...] = field(default=(), converter=unique_rules, metadata={"join": "rules"})
    adapter_inputs: tuple[str, ...] | None = field(default=None, converter=_order)
    shared_cache: bool | None = None
    static_cache: int | None = None
    provider: str | None = None


@record(kw_only=True)
class Parts:
    """Which ONNX files a spec is written as.

    Attributes:
        behaviors: Named views of the model: `encoder`, `decoder`, `monolith`, or parts such as `text_model`.
        files: The files of the task; one file `model` when empty.
        links: Inputs that another part computes.
    """

    behaviors: Named[Overlay] = field(default=Named((), "behavior"), converter=by_name, metadata={"join": "overlays"})
    files: Named[records.File] = field(default=Named((), "file"), converter=by_name)
    links: Named[records.Link] = field(default=Named((), "link"), converter=by_name)


@record(kw_only=True)
class ExportSpec:
    """What goes in, what comes out, and which axes are dynamic. `compose` joins specs, edits are functions on specs.

    Attributes:
        name: The name of the architecture, for messages.
        task: The task that the spec is for; None when it is for none yet (see `for_task`).
        derived: Where the spec comes from, when it was derived from a model, or is the row of another model type.
        inputs: The tensors that go in.
        outputs: The tensors that come out.
        normalizer: Where the configuration keeps the values that axes and generators name.
        dummies: How dummy tensors are made.
        axes: What is known of axes: sizes in dummy tensors, static axes, ranges, other names in ONNX.
        limits: The sizes that the model takes, where these are not all: `height % 32 == 0`.
        tasks: What each task adds to the spec.
        cases: The cases of the check: what each changes in the dummies.
        parts: Which ONNX files the spec is written as.
        call: How the model is loaded and called.
        cache: The cache of the model.
        check: How outputs are compared with PyTorch's.
        target: Opset and data types of the graph.

    `spec["input_ids"]` is the input or output of that name; `"input_ids" in spec` is whether there is one.
    `spec.inputs["input_ids"]` and `spec.inputs[0]` are inputs, `spec.tasks["fill-mask"]` is what a task adds: all
    records with names are found by position and by name.

    >>> spec = ExportSpec(name="bert", target=Target(opset=18))
    >>> spec.target.opset, spec.inputs, "input_ids" in spec
    (18, (), False)
    """

    name: str | None = None
    task: str | None = None
    derived: str | None = None
    inputs: Named[records.InputSpec] = field(default=Named((), "input"), converter=by_name)
    outputs: Named[records.OutputSpec] = field(default=Named((), "output"), converter=by_name)
    normalizer: records.Normalizer = records.Normalizer()
    dummies: Dummies = Dummies()
    axes: Named[AxisFacts] = field(default=Named((), "axis"), converter=by_name, metadata={"join": "axes"})
    limits: tuple[Condition, ...] = field(default=(), converter=as_tuple, metadata={"join": "limits"})
    tasks: Named[Overlay] = field(default=Named((), "task"), converter=by_name, metadata={"join": "overlays"})
    cases: Named[Overlay] = field(default=Named((), "case"), converter=by_name, metadata={"join": "overlays"})
    parts: Parts = Parts()
    call: Call = Call()
    cache: Cache = Cache()
    check: Check = Check()
    target: Target = Target()

    __getitem__ = records.tensor_of
    __contains__ = records.has_tensor

    def __str__(self) -> str:
        return printing.text(printing.title(self), printing.spec_sections(self))


@record
class Overlay:
    """What a task, a behavior or a case of the check adds to a spec.

    Attributes:
        name: The name of the task, behavior or case.
        spec: A spec that is composed onto the spec.
        edits: Edits that follow.
    """

    name: str
    spec: ExportSpec = field(factory=ExportSpec)
    edits: tuple[records.Edit, ...] = field(default=(), converter=as_tuple)


def inner_specs(spec: ExportSpec) -> Iterator[ExportSpec]:
    """The spec, and every spec inside it: those of its tasks and of its behaviors."""
    yield spec
    for overlay in (*spec.tasks, *spec.parts.behaviors):
        yield from inner_specs(overlay.spec)


def each_spec(spec: ExportSpec, change: Callable[[ExportSpec], ExportSpec]) -> ExportSpec:
    """The spec with a change applied to it and to every spec inside it, also to those of the cases of the check."""

    def inside(overlays: Iterable[Overlay]) -> tuple[Overlay, ...]:
        return tuple(evolve(overlay, spec=each_spec(overlay.spec, change)) for overlay in overlays)

    changed = change(spec)
    parts = evolve(changed.parts, behaviors=inside(changed.parts.behaviors))
    return evolve(changed, tasks=inside(changed.tasks), cases=inside(changed.cases), parts=parts)


def with_changed_input(
    spec: ExportSpec, name: str, change: Callable[[records.InputSpec], records.InputSpec]
) -> ExportSpec:
    """The spec with a change of an input, wherever a spec inside it has that input. UnknownName if none has it."""
    known = dict.fromkeys(tensor.name for inner in inner_specs(spec) for tensor in inner.inputs)
    refuse_unknown("input", name, known, of=spec.name or "this spec")

    def changed(inner: ExportSpec) -> ExportSpec:
        inputs = (change(tensor) if tensor.name == name else tensor for tensor in inner.inputs)
        return evolve(inner, inputs=tuple(inputs))

    return each_spec(spec, changed)


def tensor_names(spec: ExportSpec) -> tuple[str, ...]:
    """The names of all inputs, then of all outputs, of a spec and of the specs inside it."""
    tensors = zip(*((inner.inputs, inner.outputs) for inner in inner_specs(spec)), strict=True)  # all inputs are first
    return tuple(dict.fromkeys(tensor.name for of_all in tensors for of_one in of_all for tensor in of_one))

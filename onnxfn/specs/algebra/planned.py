"""The records of a plan: planned specs, whose sizes are numbers, and the ONNX files to write."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import field

from onnxfn.specs.algebra.spec import Call, Check, Dummies, ExportSpec, Target
from onnxfn.specs.axes import symbols
from onnxfn.specs.axis_symbols import AxisFacts, graph_axes
from onnxfn.specs.conditions import Condition
from onnxfn.specs.converters import as_tuple
from onnxfn.specs.named_records import Named, by_name
from onnxfn.specs.quantization import Within
from onnxfn.specs.record import record
from onnxfn.specs.records import InputSpec, Link, OutputSpec, has_tensor, tensor_of
from onnxfn.specs.results import printing
from onnxfn.specs.results.measurements import is_first_variant
from onnxfn.specs.results.output_types import modalities

BATCH = "batch_size"
"""The symbol of the batch axis in the patterns of specs."""


@record
class Feedback:
    """The name of an input that the next call takes from an output of this call, as a cache is passed on."""

    input: str
    output: str

    @property
    def name(self) -> str:
        """The name of the input, which is unique."""
        return self.input


@record
class Case:
    """A case of the check, planned: the dummies, inputs and sizes that differ from the traced sample.

    Attributes:
        name: The name of the case.
        dummies: Generators that replace those of the spec.
        inputs: Inputs that replace those of the spec, as an empty cache replaces a full one.
        axes: Sizes that replace those of the spec.
    """

    name: str
    dummies: Dummies = field(factory=Dummies)
    inputs: Named[InputSpec] = field(default=Named((), "input"), converter=by_name)
    axes: Named[AxisFacts] = field(default=Named((), "axis"), converter=by_name)


@record(kw_only=True)
class PlannedSpec:
    """A spec with the values of a configuration: sizes are numbers, conditions are decided, one tensor per layer.

    Attributes:
        name: The name of the architecture, for messages.
        task: The task.
        derived: Where the spec comes from, when it was derived from a model.
        inputs: The inputs of the graph, in order.
        outputs: The outputs of the graph, in order.
        dummies: How dummy tensors are made.
        axes: What is known of axes: sizes in dummy tensors, static axes, ranges. All values are numbers.
        batch_name: The symbol of the batch axis, where it has another name: see `batch`.
        cases: The cases of the check.
        call: How the model is loaded and called.
        check: How outputs are compared with PyTorch's.
        target: Opset and data types of the graph.
        feedback: Inputs that the next call takes from an output of this call.
        links: Inputs that another part computes.
        io_names: Inputs and outputs that have `target.io_dtype`: floats that are no cache.
        limits: The sizes that the model accepts, or for which its graph is right, as conditions.
    """

    name: str | None = None
    task: str | None = None
    derived: str | None = None
    inputs: Named[InputSpec] = field(default=Named((), "input"), converter=by_name)
    outputs: Named[OutputSpec] = field(default=Named((), "output"), converter=by_name)
    dummies: Dummies = Dummies()
    axes: Named[AxisFacts] = field(default=Named((), "axis"), converter=by_name)
    batch_name: str | None = None
    cases: Named[Case] = field(default=Named((), "case"), converter=by_name)
    call: Call = Call()
    check: Check = Check()
    target: Target = Target()
    feedback: Named[Feedback] = field(default=Named((), "feedback"), converter=by_name)
    links: Named[Link] = field(default=Named((), "link"), converter=by_name)
    io_names: tuple[str, ...] = field(default=(), converter=as_tuple)
    limits: tuple[Condition, ...] = field(default=(), converter=as_tuple)

    @property
    def batch(self) -> str:
        """The symbol of the batch axis."""
        return self.batch_name or BATCH

    __getitem__ = tensor_of
    __contains__ = has_tensor

    def __str__(self) -> str:
        return printing.text(printing.title(self), printing.spec_sections(self))


AnySpec = ExportSpec | PlannedSpec
"""A spec before or after planning: both have inputs, outputs, dummies, axes, check and target."""


@record
class Part:
    """One ONNX file of a plan.

    Attributes:
        name: The file's stem.
        spec: The planned spec of its graph.
        filler: The graph inside it that computes inputs that arrive empty: one part, or none.
        dtype: Which of the `dtypes` of an export the file is for; None if it has none.
    """

    name: str
    spec: PlannedSpec
    filler: tuple[Part, ...] = field(default=(), converter=as_tuple)
    dtype: str | None = None

    @property
    def inputs(self) -> dict[str, dict[int, str]]:
        """`{name: {axis: symbol}}` of the inputs; static axes are left out."""
        return {tensor.name: symbols(graph_axes(self.spec, tensor)) for tensor in self.spec.inputs}

    @property
    def outputs(self) -> dict[str, dict[int, str]]:
        """`{name: {axis: symbol}}` of the outputs; static axes are left out."""
        return {tensor.name: symbols(graph_axes(self.spec, tensor)) for tensor in self.spec.outputs}

    def __str__(self) -> str:
        return printing.text(_part_title(self), printing.spec_sections(self.spec))


def _part_title(part: Part) -> str:
    """The file of a part, the title of its spec, and the name of the dtype where the export has several."""
    return " · ".join(filter(None, (f"{part.name}.onnx", printing.title(part.spec), part.dtype)))


@record
class WeightBytes:
    """The bytes of the weights of a part, which is the stem of its ONNX file."""

    part: str
    bytes: int


@record
class ChosenBits:
    """The bits that an export chose for weights of a part within a limit: its rules have them, one for each weight.

    Attributes:
        part: The stem of the ONNX file.
        within: The limit.
        kl: The KL divergence from PyTorch that the choice is predicted to have.
        bytes: The bytes of the weights of the part that it is predicted to have.
    """

    part: str
    within: Within
    kl: float
    bytes: int


@record
class LeftOut:
    """An argument of the model that a processor may give and that no graph of a plan takes.

    Attributes:
        name: The argument of `forward`.
        reason: Why no graph takes it.
        edit: The call that changes the spec so that a graph takes it; empty if there is none.
    """

    name: str
    reason: str
    edit: str = ""

    def __str__(self) -> str:
        return f"{self.name} is left out: {self.reason}{f'; {self.edit} takes it' if self.edit else ''}"


@record
class Plan:
    """What an export will do, decided before any weight is read.

    Attributes:
        parts: The ONNX files, in the order in which they are written. `plan["encoder_model"]` is the part of that name,
            `plan[0]` the first one.
        left_out: The parameters of `forward` that a processor of transformers may give and no part takes. Known when
            the plan was made for a model, as `export` does; a plan from a configuration alone has none.
        weight_bytes: The size of the weights of each part: in a dry run those of the model, which a
            file lacks if no output needs them, else those of its graph.
        chosen: What is predicted of bits that were chosen within a limit. Known after an export.
        remarks: What a client of the layout cannot load, and which files are poor, one line each. The first are known
            when the plan was made for a layout, the others after the check.
    """

    parts: Named[Part] = field(default=Named((), "part"), converter=by_name)
    left_out: Named[LeftOut] = field(default=Named((), "left out input"), converter=by_name)
    weight_bytes: tuple[WeightBytes, ...] = field(default=(), converter=as_tuple)
    chosen: tuple[ChosenBits, ...] = field(default=(), converter=as_tuple)
    remarks: tuple[str, ...] = field(default=(), converter=as_tuple)

    def __getitem__(self, key: int | str) -> Part:
        return self.parts[key]

    def __iter__(self) -> Iterator[Part]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    @property
    def inputs(self) -> dict[str, dict[int, str]]:
        """`{name: {axis: symbol}}` of the inputs of the first part."""
        return self.parts[0].inputs

    @property
    def outputs(self) -> dict[str, dict[int, str]]:
        """`{name: {axis: symbol}}` of the outputs of the first part."""
        return self.parts[0].outputs

    @property
    def task(self) -> str | None:
        """The task of the parts."""
        return self.parts[0].spec.task if self.parts else None

    @property
    def arguments(self) -> frozenset[str]:
        """The arguments of `forward` that the parts take, or that are constants of their graphs."""
        specs = [inner.spec for part in self.parts for inner in (part, *part.filler)]
        paths = (str(tensor.forward_path[0]) for spec in specs for tensor in spec.inputs)
        return frozenset((*paths, *(constant.name for spec in specs for constant in spec.call.constants)))

    @property
    def modalities(self) -> tuple[str, ...]:
        """What the parts read: `text`, `image`, `video`, `audio`."""
        return modalities(self.arguments)

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the ONNX files, in the order in which they are written."""
        return tuple(f"{part.name}.onnx" for part in self.parts)

    def __str__(self) -> str:
        sections = [*printing.weight_sections(self), *printing.chosen_sections(self), *printing.left_out_sections(self)]
        parts = [str(part) if is_first_variant(part, self) else _part_title(part) for part in self.parts]
        return "\n".join([*parts, *([printing.text("all parts", sections)] if sections else [])])

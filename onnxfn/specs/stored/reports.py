"""The records of results: events, what limits a model, the report of a check, the result of an export."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from os import PathLike
from typing import Any, Literal

from attrs import evolve, field

from onnxfn.specs.algebra.planned import Plan
from onnxfn.specs.algebra.public_calls import public
from onnxfn.specs.conditions import Condition
from onnxfn.specs.converters import as_tuple
from onnxfn.specs.errors import InvalidSpec, OnnxfnError
from onnxfn.specs.record import record
from onnxfn.specs.results import page, printing, result_facts
from onnxfn.specs.results.measurements import Measurement, SectionError, multiple
from onnxfn.specs.short_repr import counted, shortened_call

CPU = ("CPUExecutionProvider",)
"""The provider of ONNX Runtime that every build has."""

EventStatus = Literal["start", "progress", "end", "failure"]


@record
class Event:
    """The current step of an export. `export` calls `on_event` with it, in its own thread.

    An event comes when a stage starts, up to four times a second while it runs, and when it ends, fails or is stopped.
    After a failure the export may go on in another way, which has an event of its own: `all layers`, ...

    Attributes:
        stage: `plan`, `capture`, `passes`, `write`, `check`, `complete` or another stage; `wait` while an export of
            another thread is tracing.
        part: The stem of the ONNX file; empty for a stage of the whole export. In the export of a pipeline the name
            of a part of the pipeline stands before it: `unet/model`.
        seconds: How long the stage has run.
        status: `start`, `progress`, `end` or `failure`.
        completed: How much is ready: bytes of `write`, `copy`, `complete`, cases of `check`, weights of `load`; else 0.
        total: The bytes, cases or weights of the stage, as far as they are known then; 0 where they are not.
        remaining: The seconds until the stage ends, as far as they are known; else None.
    """

    stage: str
    part: str
    seconds: float = 0.0
    status: EventStatus = "start"
    completed: float = 0
    total: float = 0

    @property
    def remaining(self) -> float | None:
        """The seconds until the stage ends, if its rest is as fast as it was so far; None if that is not known."""
        return self.seconds * (self.total / self.completed - 1) if self.completed else None


@record
class Fusion:
    """The number of a fused operator, such as `Attention`, in a graph."""

    operator: str
    actual: int

    def __str__(self) -> str:
        return f"{self.operator}: {self.actual}"


@record
class GraphSize:
    """The size of a graph, and the types of its outputs.

    Attributes:
        part: The stem of the ONNX file.
        parameters: The number of its weights with a floating-point type.
        nodes: The number of its nodes, those of functions and branches included.
        outputs: The name, and the type and axes, of each output.
        inputs: The same of each input, adapters included.
        bytes: The size of the file and of its external data.
    """

    part: str
    parameters: int
    nodes: int
    outputs: tuple[tuple[str, str], ...] = field(default=(), converter=as_tuple)
    inputs: tuple[tuple[str, str], ...] = field(default=(), converter=as_tuple)
    bytes: int = 0

    def __str__(self) -> str:
        return f"{printing.magnitude(self.parameters)} parameters, {self.nodes} nodes"


@record
class Difference:
    """The error of one output of ONNX Runtime against PyTorch's, over all cases of the check.

    Attributes:
        part: The stem of the ONNX file.
        output: The name of the output.
        shapes: The shape of the output in each case.
        max_abs: The largest absolute difference in the worst case: from PyTorch in float64 if that was needed, else
            from PyTorch in the dtype of the export.
        max_rel: The largest error relative to the element or to the root mean square of the output, the larger of both.
        tolerance: The largest difference that is allowed in the worst case, if all differences of the output grow
            alike: `max_abs` above it is a failure.
        worst_case: The name of the case that is nearest to its bound, and its sizes.
        passed: Whether the output agrees in every case.
        own_error: The largest error of PyTorch itself in the dtype of the export, against float64; None where float64
            was not needed or could not run.
        references: The references of the output in the cases, with reasons.
        errors: For each case its name and sizes, the largest error, and the allowed error, as in `tolerance`.
        within_own_error: Whether the output differs, but in no case by more than PyTorch itself from float64, times 4:
            the weights amplify rounding, so the outputs do not decide whether the file is right. Not written to JSON.
    """

    part: str
    output: str
    shapes: tuple[tuple[int, ...], ...]
    max_abs: float
    max_rel: float
    tolerance: float
    worst_case: str
    passed: bool
    own_error: float | None = None
    references: tuple[str, ...] = ()
    errors: tuple[tuple[str, float, float], ...] = ()
    within_own_error: bool = field(default=False, eq=False)

    @property
    def of_bound(self) -> float:
        """The largest error as a multiple of what is allowed, over all cases: at most 1 if the output agrees."""
        errors = self.errors or ((self.worst_case, self.max_abs, self.tolerance),)
        return max(multiple(error, allowed) for _, error, allowed in errors)


@record
class Report:
    """The result of a check: one difference for each output, and the measurements of quantized and 16-bit files.

    Attributes:
        differences: The figures of each output.
        cases: The cases that were run, each with its sizes.
        findings: Faults of a file besides the values of its outputs, one line each: inputs and outputs that differ from
            the plan, or weights that are not the model's. A matrix that the file stores with its axes exchanged may
            differ without a line: its outputs tell.
        measurements: The accuracy of quantized and 16-bit files against the float model. The differences of a quantized
            file are those from PyTorch with the weights of the file.
        sections: How far each section is from PyTorch; nothing unless the check was by sections.
        unchecked: What was not checked: ONNX files of other dtypes in the folder; prompts that PyTorch refuses, if it
            takes others; branches that no sizes of inputs decide, or, in a file that had no check, only too large ones,
            and all in a check by sections; ends of ranges too large to try; small and far sizes at which rounding
            decides the outputs; and texts too long for the whole model, that its layers do not read alone.

    >>> by = "PyTorch in float32; float64 was not needed"
    >>> shapes, case = ((2, 8),), "one (batch_size=2)"
    >>> difference = Difference("model", "logits", shapes, 2e-7, 2e-7, 1e-5, case, passed=True, references=(by,))
    >>> print(Report([difference], [case]))
    check passed
      ONNX Runtime against PyTorch
        output         error    bound    error/bound  status  worst at
        model: logits  2.0e-07  1.0e-05  0.02         ok      one
      compared with
        PyTorch in float32; float64 was not needed  1 comparison  a few roundings of
            the dtype x the output's size
      cases
        one (batch_size=2)
    """

    differences: tuple[Difference, ...] = field(converter=as_tuple)
    cases: tuple[str, ...] = field(default=(), converter=as_tuple)
    findings: tuple[str, ...] = field(default=(), converter=as_tuple)
    measurements: tuple[Measurement, ...] = field(default=(), converter=as_tuple)
    sections: tuple[SectionError, ...] = field(default=(), converter=as_tuple)
    unchecked: tuple[str, ...] = field(default=(), converter=as_tuple)

    def plot(self, axes: Any = None) -> Any:
        """Draws the error of each output, and each measurement, over what is allowed; returns the axes of matplotlib.

        OnnxfnError if matplotlib is not installed: it is in the extra `plot`.
        """
        return printing.draw_report(self, axes)

    def __repr__(self) -> str:
        return shortened_call("Report", printing.report_words(self))

    @property
    def passed(self) -> bool:
        """Whether every output agrees or reaches its floors, and nothing was found. Without outputs it has not."""
        passed = [result.passed for result in self.differences] + [result.passed for result in self.measurements]
        return bool(passed) and all(passed) and all(each.passed for each in self.sections) and not self.findings

    def html(self) -> str:
        """The report as an HTML page of one file: the verdict, errors against their bounds as a plot, the cases."""
        return page.page(page.report_facts(self))

    def _repr_html_(self) -> str:
        return page.fragment(page.report_facts(self))

    def __str__(self) -> str:
        sections = printing.report_sections(self)
        return result_facts.screen(printing.check_status(self), sections, more=".html()", whole=3)


class CheckFailed(OnnxfnError, RuntimeError):
    """The ONNX files do not compute what PyTorch computes, or they could not be compared.

    Attributes:
        report: The figures of each output. If ONNX Runtime could not load or run a file, there are none, and the only
            finding is the message.

    >>> CheckFailed("ONNX Runtime cannot load model.onnx").report.findings
    ('ONNX Runtime cannot load model.onnx',)
    """

    report: Report

    def __init__(self, message: str, report: Report | None = None) -> None:
        super().__init__(message)
        self.report = Report((), (), (message,)) if report is None else report


@record
class NotQuantized:
    """A weight that a rule selects but that is not quantized.

    Attributes:
        part: The stem of the ONNX file.
        weight: The name of the parameter.
        reason: Why it cannot be quantized.

    >>> print(NotQuantized("model", "experts.down_proj", "ScatterND reads it"))
    model: experts.down_proj is not quantized: ScatterND reads it
    """

    part: str
    weight: str
    reason: str

    def __str__(self) -> str:
        return f"{self.part}: {self.weight} is not quantized: {self.reason}"


@record
class Exported:
    """The result of an export. It prints as a table; a notebook shows it in colors, with the errors as a plot.

    Attributes:
        path: The folder or the ONNX file that the caller named, or a temporary one.
        files: The paths of all files that were written.
        plan: The plan.
        opset: The opset of the graphs.
        seconds: The time of each stage.
        report: The report of the check; None when there was no check.
        limits: Limits of dynamic sizes, asked for, or found by the trace or the check; none for `position_ids`' values.
        repeats: Which layers were traced and repeated for the others, or why that failed; empty if it was not tried.
        fusions: For each part, the fused operators of its graph.
        graphs: How large each graph is, and the types of its outputs.
        bytes: The size of all files.
        versions: The versions of the packages that built, wrote and checked the graphs.
        not_quantized: The weights that a rule of the spec selects but that are not quantized, with the reasons.
        weights_from: The quantized checkpoint of the weights, and its size; an empty text for float weights.
        loaded: The files as `load` returns them, which the methods call; None if the result was read from JSON. If the
            export had no path, it owns the folder for temporary files that holds them.

    >>> from onnxfn.specs.algebra.planned import Part, PlannedSpec
    >>> plan = Plan([Part("model", PlannedSpec(name="bert"))])
    >>> result = Exported("out", ["out/model.onnx"], plan, 18, [("plan", 0.1)])
    >>> result.files, result.report
    (('out/model.onnx',), None)
    """

    path: str
    files: tuple[str, ...] = field(converter=as_tuple)
    plan: Plan
    opset: int
    seconds: tuple[tuple[str, float], ...] = field(converter=as_tuple)
    report: Report | None = None
    limits: tuple[Condition, ...] = field(default=(), converter=as_tuple)
    repeats: tuple[str, ...] = field(default=(), converter=as_tuple)
    fusions: tuple[tuple[str, tuple[Fusion, ...]], ...] = field(default=(), converter=as_tuple)
    graphs: tuple[GraphSize, ...] = field(default=(), converter=as_tuple)
    bytes: int = 0
    versions: tuple[tuple[str, str], ...] = field(default=(), converter=as_tuple)
    not_quantized: tuple[NotQuantized, ...] = field(default=(), converter=as_tuple)
    weights_from: str = ""
    loaded: Any = field(default=None, eq=False, repr=False)

    def __repr__(self) -> str:
        return shortened_call("Exported", [*printing.exported_words(self), counted(len(self.files), "files")])

    @public
    def model_proto(self, part: str | None = None) -> Any:
        """The graph of a part with its weights, as an `onnx.ModelProto`. A single part need not be named."""
        return self._loaded().model_proto(part)

    @public
    def session(self, part: str | None = None, *, providers: Sequence[Any] = CPU, options: Any = None) -> Any:
        """A new `onnxruntime.InferenceSession` of a part. A single part need not be named.

        UnknownName for a provider that the installed ONNX Runtime does not have.
        """
        return self._loaded().session(part, providers=providers, options=options)

    @public
    def __call__(self, part: str | None = None, /, **inputs: Any) -> dict[str, Any]:
        """The outputs of a part as numpy arrays by their names, computed by ONNX Runtime on the CPU.

        Inputs are numpy arrays, torch tensors, lists or numbers. InvalidSpec if one is missing, or does not have the
        dtype, the axes or the sizes of the spec; UnknownName for another name.
        """
        outputs: dict[str, Any] = self._loaded()(part, **inputs)
        return outputs

    @public
    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> Exported:
        """Writes the files to a folder, or a single graph to a file that ends in `.onnx`; returns the result there.

        All files appear, or none. OutputExists if `path` exists, unless `overwrite`.
        """
        saved = self._loaded().save(path, overwrite=overwrite)
        return evolve(self, path=saved.path, files=saved.files, loaded=saved)

    @property
    def passed(self) -> bool:
        """Whether the files were checked, and agree with PyTorch."""
        return self.report is not None and self.report.passed

    def _loaded(self) -> Any:
        if self.loaded is None:
            raise InvalidSpec(f"this result was read from JSON; open its files: onnxfn.load({self.path!r})")
        return self.loaded

    @property
    def inputs(self) -> dict[str, dict[int, str]]:
        """`{name: {axis: symbol}}` of the inputs of the first file, without those of adapters."""
        return self.plan.parts[0].inputs

    @property
    def outputs(self) -> dict[str, dict[int, str]]:
        """`{name: {axis: symbol}}` of the outputs of the first file."""
        return self.plan.parts[0].outputs

    def html(self) -> str:
        """The result as an HTML page of one file: files, inputs and outputs, errors, sizes, times, the graph."""
        return page.page(result_facts.exported_facts(self), {} if self.loaded is None else self.loaded.outlines())

    def _repr_html_(self) -> str:
        return page.fragment(result_facts.exported_facts(self))

    def __str__(self) -> str:
        return result_facts.brief(result_facts.exported_facts(self), more=".html()")


Tick = Callable[..., None]
"""`tick()` or `tick(completed, total[, completed_next])`: called while a stage runs. It reports, and may stop it."""


def no_tick(completed: float = 0, total: float = 0, following: float = 0) -> None:
    """Reports nothing."""


StageTimer = Callable[[str, str], AbstractContextManager[Tick]]
"""From the name of a stage and of a part to the context in which the stage runs and is timed."""

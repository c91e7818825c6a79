"""The records of specs and plans: plain data and names of functions.

They are frozen, so they print, compare, hash, pickle and go to JSON and back.

Each field of ExportSpec names the way it joins (see algebra.py); `None` and `()` mean "unsaid".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from attrs import field, frozen

from onnxfn.specs import printing
from onnxfn.specs.axes import AxisMap, axis_map, fix_sizes, symbols
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.tensor_paths import Path

Kind = Literal["int", "float", "bool"]
Plain = str | int | float | bool | None
Arguments = tuple[tuple[str, Any], ...]


def arguments(given: Mapping[str, Any] | Arguments) -> Arguments:
    """Keyword arguments as sorted pairs, which compare and hash."""
    return tuple(sorted(dict(given).items()))


def many(given: Iterable[Any]) -> tuple[Any, ...]:
    """Several, in order, as a tuple."""
    return tuple(given)


def once(_: Any, attribute: Any, value: tuple[Any, ...]) -> None:
    """A validator: no two records of one tuple share a name."""
    if len(value) < 2:  # noqa: PLR2004 - nothing to share with
        return
    names = [one.name for one in value]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidSpec(
            f"{attribute.name} say {twice!r} twice; say it once, or compose two specs: the right one wins"
        )


@frozen
class Getter:
    """A named way to read a configuration: `Getter("quotient", ("hidden_size", "num_attention_heads"))`."""

    function: str
    arguments: tuple[Any, ...] = field(default=(), converter=many)

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"


Source = str | Getter


@frozen
class Read:
    """One name that generators and axes use, and where a configuration keeps it."""

    name: str
    source: Source


@frozen
class Normalizer:
    """From the names that specs use to where a configuration keeps them."""

    reads: tuple[Read, ...] = field(default=(), converter=many, validator=once)


@frozen
class Generator:
    """A named way to make a dummy tensor: a function of generators.py (or `package.module:function`), its arguments.

    An argument that is a Getter is read from the configuration when the plan is made.
    """

    name: str
    function: str
    arguments: Arguments = field(default=(), converter=arguments)

    def __str__(self) -> str:
        return f"{self.function}({', '.join(f'{key}={value}' for key, value in self.arguments)})"


@frozen
class Made:
    """An argument of a generator that is itself a dummy: what another generator makes, with these axes."""

    generator: str
    axes: AxisMap = field(converter=axis_map)


@frozen
class InputSpec:
    """One tensor that goes in: its name in ONNX, its axes, what fills a dummy, where `forward` takes it.

    `layer` is the number of the layer that keeps it, if one does.
    """

    name: str
    axes: AxisMap = field(converter=axis_map)
    generator: str
    kind: Kind = "int"
    path: Path = field(default=(), converter=many)
    when: Source | None = None
    layer: int | None = None

    @property
    def place(self) -> Path:
        """Where `forward` takes it: `path`, or the argument of the same name."""
        return self.path or (self.name,)


@frozen
class OutputSpec:
    """One tensor that comes out: its name in ONNX, its axes, where the result of `forward` holds it.

    `layer` is the number of the layer that gives it, if one does. Before it is planned it may stand for one of each
    layer: `layers` says how many, or which, and `{layer}` and `{next}` in name and path are their numbers.
    """

    name: str
    axes: AxisMap = field(converter=axis_map)
    path: Path = field(default=(), converter=many)
    when: Source | None = None
    layer: int | None = None
    layers: Source | None = None

    @property
    def place(self) -> Path:
        """Where the result holds it: `path`, or the field of the same name."""
        return self.path or (self.name,)


@frozen
class Size:
    """The size that an axis has in a dummy tensor when nobody says another: a number, or a getter of one."""

    name: str
    value: int | Getter


@frozen
class Shape:
    """The size that an axis has in the graph for good, so that it does not move."""

    name: str
    value: int


@frozen
class Pin:
    """A size that a model of some configurations has at this number alone, so that the axis does not move."""

    name: str
    value: Source
    when: Source | None = None


@frozen
class Constant:
    """An argument that `forward` always gets as it is, and that the graph does not take."""

    name: str
    value: Plain


@frozen
class Patch:
    """A function that is replaced while the model is traced, and why: both are `package.module:Class.method`."""

    name: str
    by: str
    why: str


@frozen
class State:
    """A row of a cache: a tensor that each of some layers keeps from one call to the next.

    `{layer}` in the names and paths stands for the number of the layer. `axes` are those of the tensor that is taken,
    `grown` those of the tensor that is given. `layers` says how many layers keep it, or which. A row that is never
    given has no name there.
    """

    name: str
    taken: str
    given: str | None
    axes: AxisMap = field(converter=axis_map)
    grown: AxisMap = field(converter=axis_map)
    path: Path = field(converter=many)
    found: Path = field(converter=many)
    layers: Source = "num_layers"
    after: str = "attention_mask"


@frozen
class Carry:
    """An input (`name`) that the next call is fed from what this call gives (`given`)."""

    name: str
    given: str


@frozen
class Handover:
    """An input (`name`) that another part of the plan gives, or takes itself, under the name `given`."""

    name: str
    part: str
    given: str


@frozen
class Build:
    """An argument of `forward` that is an object: a function of containers.py makes it of the tensors put there."""

    name: str
    by: str


@frozen
class Edit:
    """An edit of edits.py as data: the function's name, and its arguments after the spec."""

    function: str
    arguments: Arguments = field(default=(), converter=arguments)


@frozen
class File:
    """A file that a task is written as: its stem, the edits that make its spec, the files that it `replaces`.

    `filler` is the edits that make the spec of a graph inside it, which computes those of its inputs that come empty.
    """

    name: str
    edits: tuple[Edit, ...] = field(default=(), converter=many)
    replaces: tuple[str, ...] = field(default=(), converter=many)
    filler: tuple[Edit, ...] = field(default=(), converter=many)


def said(join: str) -> Any:
    """A field of ExportSpec that nobody has said anything about, and the name of the way it joins."""
    if join == "later":
        return field(default=None, metadata={"join": join})
    if join == "normalizer":
        return field(default=Normalizer(), metadata={"join": join})
    return field(default=(), converter=many, validator=once, metadata={"join": join})


@frozen(kw_only=True)
class ExportSpec:
    """What goes in, what comes out, which axes move; joined by `compose`, edited by pure functions."""

    name: str | None = said("later")
    task: str | None = said("later")
    derived: str | None = said("later")
    inputs: tuple[InputSpec, ...] = said("named")
    outputs: tuple[OutputSpec, ...] = said("named")
    generators: tuple[Generator, ...] = said("named")
    normalizer: Normalizer = said("normalizer")
    tasks: tuple[Overlay, ...] = said("overlays")
    cases: tuple[Overlay, ...] = said("overlays")
    behaviors: tuple[Overlay, ...] = said("overlays")
    files: tuple[File, ...] = said("named")
    runs: str | None = said("later")
    sizes: tuple[Size, ...] = said("named")
    pins: tuple[Pin, ...] = said("named")
    shapes: tuple[Shape, ...] = said("named")
    constants: tuple[Constant, ...] = said("named")
    states: tuple[State, ...] = said("named")
    builds: tuple[Build, ...] = said("named")
    carries: tuple[Carry, ...] = said("named")
    handovers: tuple[Handover, ...] = said("named")
    past: str | None = said("later")
    attention: str | None = said("later")
    patches: tuple[Patch, ...] = said("named")
    loader: str | None = said("later")
    judged_by: str | None = said("later")
    opset: int | None = said("later")
    atol: float | None = said("later")
    rtol: float | None = said("later")
    int_dtype: str | None = said("later")
    float_dtype: str | None = said("later")

    def in_graph(self, one: InputSpec | OutputSpec) -> AxisMap:
        """The axes of one of the tensors as the graph has them: those that `shapes` fix are numbers."""
        return fix_sizes(one.axes, {size.name: size.value for size in self.shapes})

    def __str__(self) -> str:
        return printing.text(printing.title(self), printing.spec_sections(self))

    def _repr_html_(self) -> str:
        return printing.html(printing.title(self), printing.spec_sections(self))


@frozen
class Overlay:
    """What a task, or a case of the check, adds to a spec: a spec laid over it, and then edits."""

    name: str
    spec: ExportSpec = field(factory=ExportSpec)
    edits: tuple[Edit, ...] = field(default=(), converter=many)


@frozen
class Part:
    """One ONNX file to be: `name` is the file's stem, `spec` holds numbers where it held names of the configuration.

    `filler`, if there is one, is the graph inside it that computes the inputs that come empty.
    """

    name: str
    spec: ExportSpec
    filler: tuple[Part, ...] = field(default=(), converter=many)

    @property
    def inputs(self) -> dict[str, dict[int, str]]:
        """`{name: {axis: symbol}}` of what goes in."""
        return {one.name: symbols(self.spec.in_graph(one)) for one in self.spec.inputs}

    @property
    def outputs(self) -> dict[str, dict[int, str]]:
        """`{name: {axis: symbol}}` of what comes out."""
        return {one.name: symbols(self.spec.in_graph(one)) for one in self.spec.outputs}

    def __str__(self) -> str:
        return printing.text(f"{self.name}.onnx · {printing.title(self.spec)}", printing.spec_sections(self.spec))

    def _repr_html_(self) -> str:
        return printing.html(f"{self.name}.onnx · {printing.title(self.spec)}", printing.spec_sections(self.spec))


@frozen
class Plan:
    """Everything an export will do, decided before any weight is read."""

    parts: tuple[Part, ...] = field(converter=many)

    @property
    def task(self) -> str | None:
        """The task of the parts."""
        return self.parts[0].spec.task if self.parts else None

    @property
    def files(self) -> tuple[str, ...]:
        """The ONNX files, in the order in which they are written."""
        return tuple(f"{part.name}.onnx" for part in self.parts)

    def __str__(self) -> str:
        return "\n".join(map(str, self.parts))

    def _repr_html_(self) -> str:
        return "".join(part._repr_html_() for part in self.parts)

"""The records of specs and plans: plain data and names of functions.

They are frozen: they print, compare, hash, pickle and go to JSON and back. `None` and `()` mean "not specified".
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from attrs import field

from onnxfn.specs.axes import AxisMap, axis_map
from onnxfn.specs.converters import Arguments, Path, as_tuple, sorted_arguments
from onnxfn.specs.errors import refuse_unknown
from onnxfn.specs.named_records import Named, by_name
from onnxfn.specs.record import record
from onnxfn.specs.short_repr import rounded

OpenKind = Literal["int", "float", "bool"]
IntegerKind = Literal["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FloatKind = Literal["float16", "bfloat16", "float32", "float64"]
Kind = Literal[OpenKind, IntegerKind, FloatKind]
"""The kind of a tensor's elements: `int` or `float`, whose dtype in the graph `Target` says, or a dtype."""

KINDS: tuple[str, ...] = get_args(Kind)

Plain = str | int | float | bool | None


@record
class Getter:
    """A named way to read a value from a configuration: `Getter("quotient", ("hidden_size", "num_attention_heads"))`.

    Attributes:
        function: A key of `GETTERS` in config_values.py.
        arguments: Its arguments: attribute names, numbers, or other getters.
    """

    function: str
    arguments: tuple[Any, ...] = field(default=(), converter=as_tuple)

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"


Source = str | Getter
"""Where a configuration keeps a value: a dotted attribute path, a formula of such paths, or a getter."""


@record
class Read:
    """One entry of a normalizer: the name that axes and generators use, and where the configuration has the value."""

    name: str
    source: Source


@record
class Normalizer:
    """A mapping from the names that specs use to where a configuration keeps the values.

    Attributes:
        reads: The entries, each name once.
    """

    reads: Named[Read] = field(default=Named((), "read value"), converter=by_name)


@record
class Generator:
    """A named way to make a dummy tensor.

    Attributes:
        name: The name that inputs refer to.
        function: A function of fills.py, or `package.module:function` for any other.
        arguments: Its keyword arguments. A Getter is read from the configuration when the plan is made; a NestedDummy
            is generated first.
        reason: Why the values have this range, if the generator was derived from a sample.
    """

    name: str
    function: str
    arguments: Arguments = field(default=(), converter=sorted_arguments)
    reason: str = ""

    def __str__(self) -> str:
        words = (key if isinstance(value, NestedDummy) else f"{key}={rounded(value)}" for key, value in self.arguments)
        call = f"{self.function}({', '.join(words)})"
        return f"{call}, {self.reason}" if self.reason else call


@record
class NestedDummy:
    """An argument of a generator that is itself a dummy tensor.

    Attributes:
        generator: The name of the generator that makes it.
        axes: Its axes.
    """

    generator: str
    axes: AxisMap = field(converter=axis_map)


@record
class InputSpec:
    """One tensor that goes into a graph.

    Attributes:
        name: Its name in ONNX.
        axes: Its axes, as a pattern such as `"batch_size sequence_length"`.
        generator: The name of the generator of its dummies.
        kind: `int`, `float` or `bool`, or a dtype such as `uint8`, which no `Target` changes.
        path: Where it sits in the arguments of `forward`; the argument of the same name when empty.
        when: A condition on the configuration; the input exists when the value read is true.
        layer: The number of the layer whose cache it is, if any.
    """

    name: str
    axes: AxisMap = field(converter=axis_map)
    generator: str
    kind: Kind = "int"
    path: Path = field(default=(), converter=as_tuple)
    when: Source | None = None
    layer: int | None = None

    @property
    def forward_path(self) -> Path:
        """Where it sits in the arguments of `forward`: `path`, or the argument of the same name."""
        return self.path or (self.name,)


@record
class OutputSpec:
    """One tensor that comes out of a graph.

    Attributes:
        name: Its name in ONNX.
        axes: Its axes.
        path: Where it sits in the result of `forward`; the field of the same name when empty.
        when: A condition on the configuration; the output exists when the value read is true.
        layer: The number of the layer that computes it, if any.
        layers: How many layers have such an output, or which. The plan has one output per layer, with the layer's
            number for `{layer}` in name and path, and the next number for `{next}`.
        kind: `float`, which is the float dtype of the graph, or float32 where the model computes in it; `int`, which is
            int64, or the type of integer inputs where it follows them; or a dtype. None when only the graph shows it.
    """

    name: str
    axes: AxisMap = field(converter=axis_map)
    path: Path = field(default=(), converter=as_tuple)
    when: Source | None = None
    layer: int | None = None
    layers: Source | None = None
    kind: Kind | None = None

    @property
    def forward_path(self) -> Path:
        """Where it sits in the result of `forward`: `path`, or the field of the same name."""
        return self.path or (self.name,)


@record
class Constant:
    """An argument that `forward` always gets with this value. It is not an input of the graph.

    Attributes:
        name: The argument.
        value: Its value.
        path: Where it sits in the arguments of `forward`; the argument of the same name when empty.
        axes: The axes of a tensor that is filled with the value; None for the value itself.
        kind: The kind of that tensor's elements.
    """

    name: str
    value: Plain
    path: Path = field(default=(), converter=as_tuple)
    axes: AxisMap | None = None
    kind: Kind | None = None


@record
class Patch:
    """A function that is replaced while the model is traced.

    Attributes:
        name: The function to replace: `package.module:Class.method`.
        by: The replacement: `file.function` of architectures/patches, or `package.module:function`.
        why: Why the model cannot be traced without it.
    """

    name: str
    by: str
    why: str


@record
class ArgumentBuilder:
    """An argument of `forward` that is an object, built from tensors.

    Attributes:
        name: The argument, or the path to the object with dots: `batch.states`.
        by: A function of models/argument_builders.py, which builds the object from the tensors whose path
            starts with the argument, or a class `package.module:Class`, which gets them as its fields.
    """

    name: str
    by: str


@record
class CacheRow:
    """A kind of tensor in a cache, one per layer: the keys, the values, a convolution state.

    `{layer}` in names and paths stands for the number of the layer.

    Attributes:
        name: The name of the row.
        input_name: The name of the input.
        output_name: The name of the output; None when the graph does not return it.
        input_axes: The axes of the input.
        output_axes: The axes of the output.
        input_path: Where the input sits in the arguments of `forward`.
        output_path: Where the output sits in the result of `forward`.
        layers: How many layers have such a tensor, or which.
        after: The input after which the cache is placed.
    """

    name: str
    input_name: str
    output_name: str | None
    input_axes: AxisMap = field(converter=axis_map)
    output_axes: AxisMap = field(converter=axis_map)
    input_path: Path = field(converter=as_tuple)
    output_path: Path = field(converter=as_tuple)
    layers: Source = "num_layers"
    after: str = "attention_mask"

    @property
    def grows(self) -> bool:
        """Whether the output is longer than the input, as keys and values are."""
        return self.input_axes != self.output_axes


@record
class Link:
    """An input that another part of the plan computes, as a decoder takes the encoder's output.

    Attributes:
        input: The name of the input.
        part: The name of the other part.
        output: The name of that part's output, or of an input that both parts share.
    """

    input: str
    part: str
    output: str

    @property
    def name(self) -> str:
        """The name of the input, which is unique."""
        return self.input


@record
class Edit:
    """An edit as data.

    Attributes:
        function: The name of a function in specs/tasks/tasks.py.
        arguments: Its keyword arguments after the spec.
    """

    function: str
    arguments: Arguments = field(default=(), converter=sorted_arguments)


@record
class File:
    """An ONNX file that a task is written as.

    Attributes:
        name: The file's stem.
        edits: The edits that make the spec of its graph.
        replaces: The stems of files that this one stands for, as a merged decoder stands for two.
        filler: The edits that make the spec of a graph inside it. That graph computes inputs that arrive empty.
    """

    name: str
    edits: tuple[Edit, ...] = field(default=(), converter=as_tuple)
    replaces: tuple[str, ...] = field(default=(), converter=as_tuple)
    filler: tuple[Edit, ...] = field(default=(), converter=as_tuple)


def tensor_of(spec: Any, name: str) -> InputSpec | OutputSpec:
    """The input of a name, else the output. UnknownName if the spec has neither, even if a task or a part has it."""
    tensors: dict[str, InputSpec | OutputSpec] = {each.name: each for each in (*spec.outputs, *spec.inputs)}
    refuse_unknown("input or output", name, tensors, of=spec.name or "this spec")
    return tensors[name]


def has_tensor(spec: Any, name: object) -> bool:
    """Whether a spec has an input or output of a name."""
    return any(tensor.name == name for tensor in (*spec.inputs, *spec.outputs))

"""A model's `forward` as a function of the planned inputs that returns the planned outputs."""

import ast
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from textwrap import dedent
from typing import Any

from toolz import groupby

from onnxfn.architectures.private.renamed import fields, name_among, renamed, spec_name
from onnxfn.models.argument_builders import built_arguments
from onnxfn.models.casting import cast_on_use
from onnxfn.models.dtypes import float_dtype, float_dtypes, torch_dtype
from onnxfn.models.model_state import unchanged_eval
from onnxfn.models.submodules import submodule_of
from onnxfn.models.torch_modes import eager_branches, quiet, stable_sorts
from onnxfn.specs.algebra.dummies import Array, graph_dtype, size_inputs
from onnxfn.specs.algebra.planned import Part, PlannedSpec
from onnxfn.specs.axes import pattern, shape, symbols
from onnxfn.specs.converters import at, nested
from onnxfn.specs.errors import CaptureFailed, UnknownName, errors_as, first_line, listed, unknown
from onnxfn.specs.plan.cache_tensors import WRITE_INDICES
from onnxfn.specs.plan.growing_caches import growing_call
from onnxfn.specs.records import KINDS, Constant, InputSpec

COMMON_ARGUMENTS = (
    *("return_dict", "use_cache", "use_mems", "is_decoder"),
    *("output_hidden_states", "output_attentions", "output_router_logits"),
)
"""Constants that families set for all of their models; a model without one of these arguments does without it."""


def torch_outputs(
    model: Any, part: Part, arrays: Mapping[str, Array], dtype: Any = None, case: str = ""
) -> tuple[Array, ...]:
    """The outputs of a part as PyTorch computes them, without patches: one array per planned output.

    `dtype`: the torch dtype to compute in, else that of the part or the model. Float outputs are float64 if they or
    `dtype` are, float16 if they are in a model of another dtype, else float32. CaptureFailed if the model does not run.
    """
    import torch

    of_part = torch_dtype(part.spec.target.float_dtype)
    computed = dtype or of_part or float_dtype(model)
    caught = errors_as(lambda error: CaptureFailed(_cannot_run(model, part, arrays, case, error)))
    state, wanted = unchanged_eval(model, part.spec.call.attention), dtype or of_part
    with caught, quiet(), state, eager_branches(), stable_sorts(), torch.no_grad(), cast_on_use(model, wanted):
        own = {input_.name: arrays[input_.name] for input_ in part.spec.inputs}  # a file may take an adapter, too
        # transformers reads masks from their end, which in a static cache is behind the text.
        spec, inputs, in_buffers = growing_call(part.spec, own) if WRITE_INDICES in own else (part.spec, own, tuple)
        outputs = flat_forward(model, spec)(tensors_for(model, spec, inputs, dtype))

    def array(output: Any) -> Array:
        is_wide, is_half = torch.float64 in (output.dtype, dtype), output.dtype == torch.float16 != computed
        wide = torch.float64 if is_wide else torch.float16 if is_half and dtype is None else torch.float32
        values: Array = (output.detach().to(wide) if output.is_floating_point() else output).numpy()
        return values

    return in_buffers([*map(array, outputs)])


def _cannot_run(model: Any, part: Part, arrays: Mapping[str, Array], case: str, error: Exception) -> str:
    """The message for a model that PyTorch cannot run on inputs of a part: weights, sizes or values may be why."""
    dtypes = dict.fromkeys(str(weight.dtype) for weight in model.parameters() if weight.is_floating_point())
    advice = f"; its weights have several types, {listed(dtypes)}: use model.float()" if len(dtypes) > 1 else ""
    where = f"{type(model).__name__} does not run in PyTorch on inputs of {part.name}{case and ' in case ' + case}"
    pairs = [(arrays[name].shape[at], axis) for name, axes in part.inputs.items() for at, axis in axes.items()]
    size, longest = max(pair for pair in [*pairs, (0, "_")] if pair[1].isidentifier() and pair[1] != part.spec.batch)
    advice += f"; if {longest} is too long, use with_shapes(spec, {longest}=(1, N)) with N below {size}" * (size > 1)
    advice += "; if a value is out of range, give its generator another `high`" * isinstance(error, IndexError)
    ends = {name: f" from {array.min()} to {array.max()}" if array.size else "" for name, array in arrays.items()}
    inputs = listed((f"{name} {array.dtype}{[*array.shape]}{ends[name]}" for name, array in arrays.items()), most=6)
    return f"{where}: {type(error).__name__}: {first_line(error)}{advice}; inputs: {inputs}"


def flat_forward(model: Any, spec: PlannedSpec) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """A function from the tensors of the planned inputs to those of the planned outputs, both in the plan's order."""
    forward = raw_forward(model, spec)

    def outputs(tensors: Sequence[Any]) -> tuple[Any, ...]:
        result = forward(tensors)
        _check_layers(model, spec, result)
        try:
            if type(result) is tuple and len(result) == len(spec.outputs) == 1 and not spec.outputs[0].path:
                values = result  # a lone tensor has no name, and needs none
            else:
                # The first field may have another name in the installed version.
                names, paths = fields(result), [output.forward_path for output in spec.outputs]
                own = ((name_among(name, names) if isinstance(name, str) else name, *rest) for name, *rest in paths)
                values = tuple(at(path, result) for path in own)
            return tuple(_in_io_dtype(spec, output.name, of) for output, of in zip(spec.outputs, values, strict=True))
        except UnknownName as error:
            where = f"{type(model).__name__} does not fit {spec.task or 'this spec'}: {error}{_advice(spec, result)}"
            raise CaptureFailed(where) from None

    return outputs


def _in_io_dtype(spec: PlannedSpec, name: str, value: Any) -> Any:
    """An output in the float type of inputs and outputs; unchanged if that is its type or it is in a wider one."""
    target = spec.target
    if name not in spec.io_names or value.dtype != torch_dtype(target.float_dtype or "float32"):
        return value
    return value.to(torch_dtype(target.io_dtype or "float32"))


def _constant_value(model: Any, spec: PlannedSpec, constant: Constant, tensors: Sequence[Any]) -> Any:
    """The constant itself, or `torch.full` of the shape given by its axes, whose sizes come from the inputs."""
    import torch

    if constant.axes is None:
        return constant.value
    pairs = list(zip(spec.inputs, tensors, strict=True))
    sizes = {symbol: tensor.shape[axis] for input_, tensor in pairs for axis, symbol in symbols(input_.axes).items()}
    kind = constant.kind or "int"
    dtype = float_dtype(model) if kind == "float" else torch_dtype(graph_dtype(spec, kind))
    device = next((tensor.device for tensor in tensors), None)
    return torch.full(shape(constant.axes, sizes), constant.value, dtype=dtype, device=device)


def _advice(spec: PlannedSpec, result: Any) -> str:
    """Advice for the path of an output: an index into a tuple, or the only key of a dict; or that it has fewer."""
    position, output = next((pair for pair in enumerate(spec.outputs) if not pair[1].path), (0, spec.outputs[0]))
    if isinstance(result, Mapping) and len(result) == len(spec.outputs) == 1:
        return f"; write gives({output.name!r}, {pattern(output.axes)!r}, path={tuple(result)!r})"
    if not isinstance(result, (tuple, list)):
        return ""
    count = "one tensor" if len(result) == 1 else f"a tuple of {len(result)}"
    if len(result) < len({each.forward_path[0] for each in spec.outputs}):
        names = listed((each.name for each in spec.outputs), most=6)
        return f"; forward returns {count}, and the spec has {len(spec.outputs)} outputs: {names}; leave out the others"
    return f"; forward returns {count}: write gives({output.name!r}, {pattern(output.axes)!r}, path=({position},))"


def raw_forward(model: Any, spec: PlannedSpec) -> Callable[[Sequence[Any]], Any]:
    """A function from the tensors of the planned inputs to all that `forward` returns; a lone tensor is a 1-tuple."""
    import torch

    submodule = submodule_of(model, spec.call.submodule)
    _check_constants(submodule, spec)
    parameters = inspect.signature(submodule.forward).parameters
    takes_others = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    # A function that gets an argument by its name would get it twice.
    passed = {name for _, named in calls_with_others(submodule) for name in named}
    constants = {
        constant.name: constant.value
        for constant in spec.call.constants
        if not constant.path and (constant.name in parameters or (takes_others and constant.name not in passed))
    }
    inner = [constant for constant in spec.call.constants if constant.path]
    of_sizes, of_model = size_inputs(spec), float_dtype(model)

    def argument(input_: InputSpec, tensor: Any) -> Any:
        if input_.name in of_sizes:  # a number, traced as the size of this axis
            return tensor.shape[0] if input_.axes == of_sizes[input_.name] else int(tensor)
        return tensor.to(of_model) if input_.name in spec.io_names else tensor

    def forward(tensors: Sequence[Any]) -> Any:
        pairs = zip(spec.inputs, tensors, strict=True)
        leaves = [(input_.forward_path, argument(input_, tensor)) for input_, tensor in pairs]
        values = [(constant.path, _constant_value(model, spec, constant, tensors)) for constant in inner]
        named = {**constants, **built_arguments(model, spec.call.builders, nested([*leaves, *values]))}
        named = renamed(named, inspect.signature(submodule.forward).parameters)
        by_place, by_name = _placed(submodule, named)
        result = submodule(*by_place, **by_name)
        return (result,) if isinstance(result, torch.Tensor) else result

    return forward


def _check_layers(model: Any, spec: PlannedSpec, result: Any) -> None:
    """Raises CaptureFailed when a field of the result, such as `hidden_states`, has more layers than the plan."""
    paths = [output.forward_path for output in spec.outputs if output.layer is not None]
    in_fields = [path for path in paths if len(path) == 2]  # noqa: PLR2004 - the field, and the index in it
    for field, own in groupby(0, in_fields).items():
        layers = at((field,), result) if isinstance(result, Mapping) and field in result else ()
        planned = 1 + max(index for _, index in own)
        if len(layers or ()) > planned:
            raise CaptureFailed(f"{type(model).__name__} returns {len(layers)} {field}, but the plan has {planned}")


def tensors_for(model: Any, spec: PlannedSpec, arrays: Mapping[str, Array], dtype: Any = None) -> tuple[Any, ...]:
    """The arrays of inputs as tensors on the model's device; floats in `dtype`, or that of the input or the model."""
    import torch

    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    of_model = float_dtype(model) if float_dtypes(model) else torch_dtype(spec.target.float_dtype or "float32")
    own = {input_.name: getattr(torch, input_.kind, None) for input_ in spec.inputs if input_.kind not in KINDS[:2]}

    def tensor(name: str, array: Array) -> Any:
        values = torch.tensor(array, device=device)  # a copy: the model may change its inputs
        return values.to(dtype or own.get(name) or of_model) if values.is_floating_point() else values

    return tuple(tensor(name, array) for name, array in arrays.items())


def _check_constants(submodule: Any, spec: PlannedSpec) -> None:
    """Raises CaptureFailed for a constant that `forward` does not read, unless it is a part or may take any name."""
    parameters = inspect.signature(submodule.forward).parameters
    others = [each.annotation for each in parameters.values() if each.kind is each.VAR_KEYWORD]
    if spec.call.submodule or any("Kwargs" not in str(annotation) for annotation in others):
        return
    for constant in spec.call.constants:
        if not constant.path and constant.name not in {*parameters, *COMMON_ARGUMENTS}:
            raise CaptureFailed(f"{_unknown_argument(submodule, constant.name)}; leave always({constant.name}=...) out")


def check_read(submodule: Any, spec: PlannedSpec, read: Collection[str]) -> None:
    """Raises CaptureFailed for an input that only `**kwargs` of `forward` takes, and that is not in `read`."""
    parameters = inspect.signature(submodule.forward).parameters
    known = {*parameters, *map(spec_name, parameters), *(builder.name for builder in spec.call.builders)}
    for input_ in () if spec.call.submodule else spec.inputs:
        argument = input_.forward_path[0]
        if input_.name not in read and argument not in known and not isinstance(argument, int):
            raise CaptureFailed(
                f"{_unknown_argument(submodule, argument)}; no node would read the input {input_.name!r}"
            )


def _unknown_argument(submodule: Any, name: str) -> UnknownName:
    parameters = inspect.signature(submodule.forward).parameters.values()
    named = [each.name for each in parameters if each.kind is not each.VAR_KEYWORD]
    return unknown("argument", name, named, of=f"the forward of {type(submodule).__name__}")


def _placed(submodule: Any, arguments: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments before a filled `*args`, which no keyword can name, and the others of `forward` by name."""
    parameters = inspect.signature(submodule.forward).parameters
    kinds = {each.kind: name for name, each in parameters.items()}
    strange = next((name for name in arguments if name not in parameters), None)
    if strange is not None and inspect.Parameter.VAR_KEYWORD not in kinds:
        error = _unknown_argument(submodule, strange)
        raise CaptureFailed(f"{error}; write takes({strange!r}, ..., path=({next(iter(parameters), 'name')!r},))")
    several = kinds.get(inspect.Parameter.VAR_POSITIONAL, "")
    last = inspect.Parameter.POSITIONAL_OR_KEYWORD if several in arguments else inspect.Parameter.POSITIONAL_ONLY
    single = [name for name, each in parameters.items() if each.kind <= last and name in arguments]
    others = {name: value for name, value in arguments.items() if name not in (*single, several)}
    return [*(arguments[name] for name in single), *arguments.get(several, ())], others


def calls_with_others(model: Any) -> tuple[tuple[str, frozenset[str | None]], ...]:
    """The calls in `forward` that pass on its `**kwargs`: each function as text, and its named arguments, if known."""
    parameters = inspect.signature(model.forward).parameters.values()
    others = next((each.name for each in parameters if each.kind is each.VAR_KEYWORD), None)
    forward = inspect.unwrap(model.forward)
    return () if others is None else _calls_with(getattr(forward, "__func__", forward), others)


@cache
def _calls_with(forward: Any, others: str) -> tuple[tuple[str, frozenset[str | None]], ...]:
    """The calls in `forward` that get `**others`, by its text; two threads that parse it may fail in Python 3.11."""
    try:
        tree = ast.parse(dedent(inspect.getsource(forward)))
    except (OSError, SyntaxError, TypeError):
        return ()
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return tuple(
        (ast.unparse(call.func), frozenset(keyword.arg for keyword in call.keywords))
        for call in calls
        if any(ast.unparse(keyword) == f"**{others}" for keyword in call.keywords)
    )

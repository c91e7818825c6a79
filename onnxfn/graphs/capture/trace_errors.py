"""The messages for a model that torch cannot trace, or with an operator that has no translation to ONNX."""

import re
import traceback
from collections.abc import Mapping, Sequence
from itertools import takewhile
from types import MappingProxyType
from typing import Any

from onnxfn.graphs.capture.trace_settings import CALLERS, DATA_DEPENDENT, tracing_packages
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.axes import terms
from onnxfn.specs.axis_symbols import SMALLEST_DYNAMIC_SIZE
from onnxfn.specs.errors import CaptureFailed, FixedSizes, first_line, listed, root_cause

WRAPPED = "traced"
"""The attribute of the traced module that holds the model: a prefix of parameter names, removed later."""

SHOWN_LINE = 100
"""Characters of a line of source that a message shows."""

BY_OPERATORS = "compute it from other operators of torch, outside the model, or remove it if its result is a constant"
"""Advice for an operator without a translation."""

BRANCHES = ("cond_true", "cond_false")
"""The names that torch has for the two functions of torch.cond. The name of a model may have the word in it."""

TRACE_ADVICE: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(
            (DATA_DEPENDENT, "DataDependentOutputException"),
            "a number, a size or a branch there depends on values of a tensor: use torch.where, the tensor itself, "
            "or a number of Python, which is a constant of the graph",
        ),
        "() is not supported": "a trace has no values: use functions of torch in place of those of numpy and of lists",
        "UnsupportedOperatorException": BY_OPERATORS,
        **dict.fromkeys(BRANCHES, "use torch.where(condition, a, b) with both results, or the branch that is meant"),
        "must match the size of tensor": "sizes do not fit there: one that with_shapes (--shape) fixes may be too "
        "large for a table of the model, such as that of positions",
        "TensorWrapper": "a graph records no gradients: write the formula of the gradient in place of torch.func",
    }
)
"""Text in an error of a trace -> what to do."""

# The part of torch.export's message with the axis that the model fixed, and its size.
_SPECIALIZED = re.compile(r"\[(\d+)\]\.size\(\)\[(\d+)\] as dynamic but your code specialized it to be a \w+ \((\d+)\)")

# What torch appends to a message about its own symbols, and a bracket that it did not open.
_TORCH_SYMBOLS = re.compile(r"\s*\((unhinted|Size-like symbols):.*|(?<=non-singleton dimension \d)\)$")
# A frame of torch's text of a stack: the file, the line, the source.
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in [^\n]*\n +([^\n]+)')


class NotTranslated(Exception):
    """The translation of a program to ONNX failed at a node, None if at no node. The cause is torch's error."""

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.node = node


def untranslated_message(model: Any, error: NotTranslated) -> str:
    """The message for a program that was not translated: the operator, the module, the line, and advice."""
    cause = first_line(root_cause(error.__cause__ or error))
    if error.node is None:
        return f"no translation to ONNX: {cause}{_trace_advice(cause)}"
    operator = str(getattr(error.node.target, "overloadpacket", error.node.target))
    reason = "" if "No ONNX function found" in cause else f": {cause}"
    caller = f"{type(model).__name__} calls{_location(error.node)}"
    return f"no translation to ONNX of {operator}, which {caller}{reason}; {BY_OPERATORS}"


def _location(node: Any) -> str:
    """The place where the model calls the operator of a node: the path of the module, and the line, if known."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = str(stack[-1][0]).removeprefix(WRAPPED).removeprefix(".") if stack else ""
    own = _own_frame(node.meta.get("stack_trace") or "")
    return f"{_in_module(path)}{f' at {_line(*own)}' if own else ''}"


def _own_frame(stack_trace: str) -> tuple[str, str, str] | None:
    """The file, the number and the text of the last line of the model in a stack trace; None if there is none."""
    frames = reversed(_FRAME.findall(stack_trace))
    below = takewhile(lambda frame: not frame[0].startswith(CALLERS), frames)  # what `forward` calls
    return next((frame for frame in below if not frame[0].startswith((*tracing_packages(), "<"))), None)


def source_line(stack_trace: str) -> str:
    """The line of the model in a stack trace of torch, `transformers/models/bert/modeling_bert.py:175`; "" for none."""
    file, number, _ = _own_frame(stack_trace) or ("", "", "")
    return f"{file.rpartition('-packages/' if '-packages/' in file else '/')[2]}:{number}" if file else ""


def _in_module(path: str | None) -> str:
    return f" in {path!r}" if path else ""


def _line(file: str, number: int | str | None, source: str | None) -> str:
    """A line of source as `file:line (text)`."""
    text = (source or "").strip()
    shown = text if len(text) <= SHOWN_LINE else f"{text[:SHOWN_LINE]}..."
    return f"{file.rpartition('/')[2]}:{number} ({shown})"


def trace_error(
    model: Any, part: Part, sample: Sequence[Any], error: BaseException, noted: Mapping[Any, Any]
) -> CaptureFailed:
    """The error for a model that torch.export cannot trace; `noted` is what its code has evaluated of sizes."""
    if fixed := fixed_axes(part, error):
        axes = ", ".join(f"axis {axis} of {name!r} ({symbol}) at {size}" for axis, name, symbol, size in fixed)
        edit = ", ".join(dict.fromkeys(f"{symbol}={size}" for *_, symbol, size in fixed if symbol.isidentifier()))
        sizes = {size for *_, size in fixed}
        equal = [each for each in noted.values() if each.answer is True and type(each.formula).__name__ == "Equality"]
        numbers = [each for each in noted.values() if type(each.answer) is not bool]  # that Python read
        fixing = [*(each for each in numbers if str(each.answer) in sizes), *equal] or numbers
        lines = dict.fromkeys(each.line for each in fixing)
        where = f" at {listed(lines, most=3)}" if lines else ""
        change = f"use with_shapes(spec, {edit or '...'}), or change the model{where}"
        return FixedSizes(f"the trace of {type(model).__name__} fixes {axes}; {change}")
    if small := _small_axes(part, sample):
        return FixedSizes(small)
    text = f"{type(error).__name__}: {_TORCH_SYMBOLS.sub('', first_line(root_cause(error)))}".rstrip(".")
    where = f"{_in_module(_module_path(model, error))} at {_model_line(error)}".strip()
    of_task = f"{type(model).__name__} could not be traced for {part.spec.task or part.name}"
    return CaptureFailed(f"{of_task}, {where}: {text}{_trace_advice(f'{text} {error}')}")


def fixed_axes(part: Part, error: BaseException | None) -> list[tuple[int, str, str, str]]:
    """The dynamic axes that the model fixes, by an error of torch: index, input, symbol, size."""
    names = list(part.inputs)
    return [
        (int(axis), names[int(tensor)], part.inputs[names[int(tensor)]][int(axis)], size)
        for tensor, axis, size in _SPECIALIZED.findall(str(error))
    ]


def _small_axes(part: Part, sample: Sequence[Any]) -> str | None:
    """The message for a dynamic axis of size 0 or 1 in the sample, which torch specializes; None if there is none."""
    pairs = zip(part.inputs.values(), sample, strict=True)
    sizes = ((symbol, tensor.shape[index]) for axes, tensor in pairs for index, symbol in axes.items())
    for symbol, size in sizes:
        if terms(symbol) == (symbol,) and size < SMALLEST_DYNAMIC_SIZE:
            return (
                f"the dynamic axis {symbol} cannot be traced at size {size}, since torch takes 0 and 1 for fixed; "
                f"trace it at {SMALLEST_DYNAMIC_SIZE} or more: sized({symbol}={SMALLEST_DYNAMIC_SIZE}) (--size), "
                f"or fix it: with_shapes(spec, {symbol}={max(size, 1)}) (--shape)"
            )
    return None


def _trace_advice(text: str) -> str:
    """The advice for an error of torch, from its text."""
    return next((f"; {advice}" for word, advice in TRACE_ADVICE.items() if word in text), "")


def _module_path(model: Any, error: BaseException) -> str | None:
    """The path of the innermost module that ran when an error was raised; None if no frame is of a module inside."""
    names = {id(module): name for name, module in model.named_modules()}
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    paths = [path for frame in frames if (path := names.get(id(frame.f_locals.get("self"))))]
    return paths[-1] if paths else None


def _model_line(error: BaseException) -> str:
    """The last line of the model's source that ran before an error, as `file:line (text)`."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith((*tracing_packages(), "<"))]
    frame = (own or list(frames))[-1]
    return _line(frame.filename, frame.lineno, frame.line)

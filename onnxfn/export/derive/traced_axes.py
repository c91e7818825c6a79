"""The axes of the outputs of a module, from a trace: formulas of the axes of its inputs."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from attrs import evolve

from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.export.derive.probe import own_symbol
from onnxfn.graphs.capture.capture import exported_program, tracing
from onnxfn.graphs.capture.trace_errors import fixed_axes
from onnxfn.specs.algebra.compose import compose, named
from onnxfn.specs.algebra.dummies import known_sizes, sized
from onnxfn.specs.algebra.facts import case
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.axes import axis, pattern, symbols, terms, value
from onnxfn.specs.errors import CaptureFailed, InvalidSpec
from onnxfn.specs.plan.check_cases import CASE_STEPS, batch_symbol
from onnxfn.specs.plan.planning import resolved


def with_traced_axes(model: Any, spec: ExportSpec, runs: Callable[[ExportSpec], bool]) -> ExportSpec:
    """The spec with the axes that its outputs have in a trace; a size without a formula has a symbol of its own.

    `runs` is whether the module runs in all cases of a spec. An axis that the trace fixes has the word that the runs
    gave it. So has one that equals an axis of an input within the limits of a module. The second case is so large, if
    the module runs at it, that no axis such as `samples//160` has the size of the trace.
    """
    spec, traced = _traced(model, spec, runs)
    outputs, own, sizes = [], dict[str, str](), known_sizes(resolved(spec, {}), {})
    for output, of_trace in zip(spec.outputs, traced, strict=False):
        words = pattern(output.axes).split()
        for at, word in enumerate(of_trace):
            if not word.isdecimal() and not (spec.limits and words[at] in sizes):
                words[at] = own.setdefault(word, own_symbol(output.name, at)) if "[" in word else word
        outputs.append(evolve(output, axes=" ".join(words)))
    spec = evolve(spec, outputs=named(spec.outputs, outputs))
    formulas = {
        symbol for output in outputs for symbol in symbols(output.axes).values() if sizes.keys() >= {*terms(symbol)}
    }
    steps = (CASE_STEPS[1] << doublings for doublings in range(16))
    grown = (({name: size + step for name, size in sizes.items()}, step) for step in steps)
    step = next((step for more, step in grown if all(value(each, more) != value(each, sizes) for each in formulas)), 0)
    larger = at_sizes(spec, sizes, step)
    return larger if step > CASE_STEPS[1] and runs(larger) else spec


def _traced(
    model: Any, spec: ExportSpec, runs: Callable[[ExportSpec], bool]
) -> tuple[ExportSpec, tuple[tuple[str, ...], ...]]:
    """The spec and the words of its outputs in a trace; no words if it fails, as the export will say.

    A module may fix an axis because it keeps a table for its last call, of the same size: it is traced at another size.
    """
    part = Part("model", resolved(spec, {}))
    try:
        return spec, _axis_words(model, part)
    except (CaptureFailed, InvalidSpec) as error:
        fixed = {name for _, _, symbol, _ in fixed_axes(part, error.__cause__) for name in terms(symbol)}
        sizes = {name: size + CASE_STEPS[0] * (name in fixed) for name, size in known_sizes(part.spec, {}).items()}
    moved = at_sizes(spec, sizes, CASE_STEPS[1], "fixed")
    with suppress(CaptureFailed, InvalidSpec):
        if fixed and runs(moved):
            return moved, _axis_words(model, Part("model", resolved(moved, {})))
    return spec, ()


def at_sizes(spec: ExportSpec, sizes: Mapping[str, int], step: int, earlier: str = "sample") -> ExportSpec:
    """The spec that is traced at other sizes. Its cases are larger, the second by `step`; `earlier` has the old."""
    planned = resolved(spec, {})
    before, lengths = known_sizes(planned, {}), [name for name in sizes if name != batch_symbol(planned)]
    cases = {
        "one": (sizes, CASE_STEPS[0]),
        "several": (sizes, step),
        **({} if before == sizes else {earlier: (before, 0)}),
    }
    of_cases = (case(each, sized(**{name: of[name] + more for name in lengths})) for each, (of, more) in cases.items())
    return compose(spec, sized(**sizes), *of_cases)


def _axis_words(model: Any, part: Part) -> tuple[tuple[str, ...], ...]:
    """A word of a pattern for each axis of the outputs of a part in a trace: a number, or a formula of the inputs.

    A word is in brackets where the notation has no formula for a size. CaptureFailed if torch cannot trace the part.
    """
    import sympy

    with tracing(model, part):
        graph = exported_program(model, part).graph
    inputs = [node.meta["val"] for node in graph.nodes if node.op == "placeholder"][-len(part.inputs) :]
    pairs = zip(part.inputs.values(), inputs, strict=True)
    symbols = {tensor.shape[index].node.expr: symbol for axes, tensor in pairs for index, symbol in axes.items()}
    names = {name: sympy.Symbol(name, integer=True, positive=True) for each in symbols.values() for name in terms(each)}
    known = {expression: value(symbol, names) for expression, symbol in symbols.items()}
    outputs = graph.output_node().args[0][-len(part.outputs) :]
    return tuple(tuple(_word(size, known, {*names.values()}) for size in node.meta["val"].shape) for node in outputs)


def _word(size: Any, known: Mapping[Any, Any], names: set[Any]) -> str:
    """The word of a size. Squares are products, and a minus has a 0 before it."""
    formula = _in_quotients(size.node.expr, known) if hasattr(size, "node") else size
    text = re.sub(r"(^|\()-", r"\g<1>0-", re.sub(r"\b(\w+)\*\*2\b", r"(\1*\1)", str(formula)))
    with suppress(InvalidSpec):
        if isinstance(size, int) or formula.free_symbols <= names:
            return axis(ast.unparse(ast.parse(text))).symbol.replace(" ", "")
    return f"[{formula}]"


def _in_quotients(formula: Any, known: Mapping[Any, Any]) -> Any:
    """A formula of known sizes, with floor quotients in place of remainders, floors and ceilings."""
    if formula in known or not formula.args:
        return known.get(formula, formula)
    first, *others = parts = [_in_quotients(part, known) for part in formula.args]
    quotients: Mapping[str, Callable[[], Any]] = {
        "FloorDiv": lambda: _floor(*parts),
        **dict.fromkeys(("Mod", "PythonMod"), lambda: first - others[0] * _floor(*parts)),
        "IntTrueDiv": lambda: first / others[0],
        "FloorToInt": lambda: _floor(*first.as_numer_denom()),
        "CeilToInt": lambda: -_floor(*(-first).as_numer_denom()),
    }
    return quotients.get(type(formula).__name__, lambda: formula.func(*parts))()


def _floor(dividend: Any, divisor: Any) -> Any:
    """A floor quotient. That of a negative number is a ceiling, which reads better without its sign."""
    is_negative = all(term.as_coeff_Mul()[0] < 0 for term in dividend.as_ordered_terms())
    quotient = torch_name("FloorDiv")(divisor - 1 - dividend if is_negative else dividend, divisor)
    return -quotient if is_negative else quotient

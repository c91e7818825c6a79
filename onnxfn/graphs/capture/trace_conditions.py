"""The conditions on sizes that a model's own code evaluates while it is traced.

A trace takes one side of each branch. torch keeps the conditions as guards, among hundreds of its own about strides and
broadcasting. Those of the model are the ones that are asked for outside of torch.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import frozen

from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.graphs.capture import trace_settings
from onnxfn.graphs.sizes import size_factors
from onnxfn.models import patching
from onnxfn.models.patching import replaced
from onnxfn.specs.conditions import Condition, is_condition


@frozen(eq=False)
class Evaluated:
    """A formula of sizes that the model's code has evaluated.

    Attributes:
        formula: The formula, of sympy.
        answer: The answer for the sizes of the trace: a bool or a number.
        line: The line of the source, as `file.py:12`.
    """

    formula: Any
    answer: Any
    line: str


@contextmanager
def noted_conditions() -> Iterator[list[Evaluated]]:
    """Notes the formulas of sizes that the code outside of torch evaluates in this thread while it lasts."""
    node_type, noted = torch_name("SymNode"), dict[Any, Evaluated]()
    evaluate, steps, packages = node_type.evaluate, _files_of_steps(), _packages()
    found: list[Evaluated] = []

    def noting(size: Any, *arguments: Any, **named: Any) -> Any:
        answer = evaluate(size, *arguments, **named)
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_code.co_filename in steps:
            frame = frame.f_back
        file = frame.f_code.co_filename
        if (size.expr, file) not in noted and size.expr.free_symbols and not file.startswith(packages):
            noted[size.expr, file] = Evaluated(size.expr, _plain(size, answer), f"{Path(file).name}:{frame.f_lineno}")
            found.append(noted[size.expr, file])
        return answer

    with replaced(node_type, "evaluate", noting):
        yield found


def _plain(size: Any, answer: Any) -> Any:
    """The answer of torch as a bool of Python, if it is one; torch may return one of sympy."""
    return bool(answer) if size.is_bool() else answer


def _packages() -> tuple[str, ...]:
    """The folders of the code that traces: what it evaluates is not asked by a model."""
    import sympy
    import torch

    of_others = (Path(package.__file__ or "").parent for package in (torch, sympy))
    return tuple(map(str, (*of_others, Path(__file__).parents[1], Path(patching.__file__).parent)))


def _files_of_steps() -> frozenset[str]:
    """The files through which the question of a line of code passes on its way to torch's formulas."""
    import torch
    from torch.fx.experimental import recording, sym_node, symbolic_shapes

    modules = (torch, recording, sym_node, symbolic_shapes, patching, size_factors, trace_settings)
    return frozenset(str(module.__file__) for module in modules) | {__file__}


def conditions(evaluated: list[Evaluated], symbols: Mapping[Any, str]) -> tuple[Condition, ...]:
    """What was true of the axes in a trace, in their names; `symbols` has the axis of each symbol of sympy.

    A formula of values of a tensor is left out, and one that a condition cannot write.
    """
    import sympy

    found, printed = dict[str, Condition](), torch_name("PythonPrinter")().doprint
    for each in evaluated:
        was = sympy.Eq(each.formula, each.answer) if type(each.answer) is not bool else each.formula
        formula = was if each.answer is not False else sympy.Not(was)
        if formula.free_symbols and formula.free_symbols <= symbols.keys():
            named = {symbol: sympy.Symbol(f"({axis})", integer=True, positive=True) for symbol, axis in symbols.items()}
            text = printed(formula.xreplace(named)).replace("torch.sym_float", "float")
            if is_condition(text):
                plain = ast.unparse(ast.parse(text))
                found.setdefault(plain, Condition(plain, each.line))
    return tuple(found.values())

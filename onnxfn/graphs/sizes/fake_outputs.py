"""Outputs of operators at dynamic sizes, by rules that come before the formulas of torch.

torch finds the shape of an output by running the formula of the operator on tensors without values. Where sizes are
dynamic, this compares many symbols: the rules save 16 % of the time of an export of ResNet, 34 % of SegFormer's.

They also make views exact. torch's formula decides by the traced sizes which axes to split and merge. So it may write
`4 // windows`, which is wrong if `windows` does not divide 4, as in Florence-2's vision encoder at other sizes.
"""

import operator
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import accumulate
from typing import Any

import torch

from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.graphs.sizes.dense_outputs import Rule, composite_rules, elementwise_rules, viewed


@contextmanager
def fast_fake_outputs() -> Iterator[None]:
    """Adds the rules to torch's own table of such functions, and removes them again."""
    table, key = torch_name("fast_functions")(), torch_name("DispatchKey").CompositeImplicitAutograd
    with ExitStack() as stack:
        for function, rule in elementwise_rules().items():
            stack.enter_context(_entry(table, function, _rule_or(rule, table.get(function) or _by_torch(function))))
        stack.enter_context(_entry(table, torch.ops.aten.view.default, _view))
        # These are not in that table: torch runs their formulas before it asks the table.
        for function, rule in composite_rules().items():
            formula = function.py_kernels.get(key) or partial(function._op_dk, key)
            stack.callback(function._dispatch_cache.clear)
            stack.enter_context(_entry(function.py_kernels, key, _composite(rule, formula)))
            function._dispatch_cache.clear()
        yield


@contextmanager
def _entry(table: Any, key: Any, value: Any) -> Iterator[None]:
    """Sets an entry of a table, and restores it. An entry that was there is never missing for other threads."""
    before = {key: table[key]} if key in table else {}
    table[key] = value
    try:
        yield
    finally:
        table.update(before)
        if not before:
            table.pop(key, None)


def _rule_or(rule: Rule, function: Callable[..., Any]) -> Callable[..., Any]:
    """The output by the rule, else by the function."""

    def outputs(mode: Any, *args: Any, **kwargs: Any) -> Any:
        output = rule(*args, **kwargs)
        return function(mode, *args, **kwargs) if output is None else output

    return outputs


def _by_torch(function: Any) -> Callable[..., Any]:
    """The outputs of an operator that is not in torch's table of fast functions."""

    def outputs(mode: Any, *args: Any, **kwargs: Any) -> Any:
        table = torch_name("fast_functions")()
        entry = table.pop(function)  # else torch would call this function again
        try:
            with mode:
                return function(*args, **kwargs)
        finally:
            table[function] = entry

    return outputs


def _view(mode: Any, tensor: Any, shape: Any) -> Any:
    """The elements of a tensor in another shape, in the same memory."""
    output = viewed(tensor, shape)
    if output is not None:
        return output
    # Where factors do not show the view, that of a contiguous tensor is contiguous. Others are left to torch.
    with mode:
        if not shape or torch_name("has_unbacked_input")(tensor, shape) or not torch_name("is_contiguous")(tensor):
            return torch_name("view")(mode, torch.ops.aten.view.default, tensor, shape)
        sizes = torch_name("broadcast_size")(shape, tensor.numel())
        return torch.as_strided(tensor, sizes, [*accumulate(reversed(sizes[1:]), operator.mul, initial=1)][::-1])


def _composite(rule: Rule, formula: Callable[..., Any]) -> Callable[..., Any]:
    """A function in place of the formula of a composite operator: the output by the rule, else by the formula."""
    fake_tensor, proxy_mode = torch_name("FakeTensor"), torch_name("proxy_mode")

    def outputs(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        # Where a graph is made of the parts of an operator, only the formula calls them.
        by_rule = isinstance(tensor, fake_tensor) and proxy_mode() is None
        output = rule(tensor, *args, **kwargs) if by_rule else None
        return formula(tensor, *args, **kwargs) if output is None else output

    return outputs

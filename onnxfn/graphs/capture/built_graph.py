"""The graph of a part, and what is known about it."""

from collections.abc import Callable
from typing import Any

from attrs import field, frozen

from onnxfn.specs.conditions import Condition
from onnxfn.specs.converters import as_tuple


@frozen(kw_only=True, eq=False)
class BuiltGraph:
    """The graph of a part, and what is known about it.

    Attributes:
        model: The graph, an `onnx_ir.Model`. Passes change it.
        limits: The sizes of dynamic axes for which the graph is valid.
        conditions: What the model's code evaluated of sizes in the trace, as it was true there; first, what torch
            assumed.
        guards: A function that returns what torch took for true besides: many and long formulas.
        needs_check: Whether sizes are formulas that several traces suggest: only a check can say if they are right.
        unused_patches: The patches of the user that the trace did not call.
        traced_layers: Which layers were traced and repeated, or why all were; "" for a model without repeated layers.
        from_repeats: Whether layers were repeated: fewer layers were traced than the graph has.
        template: The name of its template in the cache; None if it has none.
        from_template: Whether it was loaded from its template, without a trace.
        not_quantized: `(name, reason)` of each weight that a rule selects but that is not quantized.
        stored: The names of the parameters that are stored as in a quantized checkpoint.
    """

    model: Any
    limits: tuple[Condition, ...] = field(default=(), converter=as_tuple)
    conditions: tuple[Condition, ...] = field(default=(), converter=as_tuple)
    guards: Callable[[], tuple[Condition, ...]] = tuple
    needs_check: bool = False
    unused_patches: tuple[str, ...] = field(default=(), converter=as_tuple)
    traced_layers: str = ""
    from_repeats: bool = False
    template: str | None = None
    from_template: bool = False
    not_quantized: tuple[tuple[str, str], ...] = ()
    stored: tuple[str, ...] = ()

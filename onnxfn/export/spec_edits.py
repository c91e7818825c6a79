"""The spec for a checkpoint with the edits of a job."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from onnxfn.export.lookup.lookup import checkpoint_task, spec_for
from onnxfn.export.options import OPTIONS, Values
from onnxfn.specs.edits.behaviors import with_behavior
from onnxfn.specs.edits.tensors import with_dtypes
from onnxfn.specs.plan.planning import plan
from onnxfn.specs.spec import ExportSpec, FloatDtype
from onnxfn.specs.tasks import WITH_PAST, for_some_task
from onnxfn.weights.layouts import layout_of

BEFORE_DTYPE = ("opset", "atol", "rtol", "split")
"""The edits that are made before the dtype is set."""


def edited_spec(config_or_model: Any, edits: Iterable[tuple[str, Any]] = (), dtype: str = "float32") -> ExportSpec:
    """The spec for a configuration, or for a model whose type has no row, in a float dtype, with edits.

    The edits are made in the order of `OPTIONS`, and the dtype is set after those that `BEFORE_DTYPE` names.

    InvalidSpec for a model that has no graph of its own as a whole, if the edits ask for it.
    """
    values = dict(edits)
    spec = _spec(config_or_model, values.get("task"), monolith="monolith" in values)
    first = {name: value for name, value in values.items() if name in BEFORE_DTYPE}
    spec = with_dtypes(_edited(spec, first, config_or_model), float=cast("FloatDtype", dtype))
    return _edited(spec, {name: value for name, value in values.items() if name not in first}, config_or_model)


def _edited(spec: ExportSpec, values: Values, config_or_model: Any) -> ExportSpec:
    for name, value in values.items():
        change = OPTIONS[name].edit
        spec = spec if change is None else change(spec, value, config_or_model)
    return spec


def _spec(config_or_model: Any, task: str | None, *, monolith: bool) -> ExportSpec:
    """The spec for a task; that of the model in one file, if this is asked for and it would have several."""
    task = task or checkpoint_task(config_or_model)
    spec = spec_for(config_or_model, task)
    if not monolith or len(plan(spec, config_or_model).parts) == 1:
        return spec
    return with_behavior(for_some_task(spec_for(config_or_model, task and task.removesuffix(WITH_PAST))), "monolith")


def suffixed_dtypes(dtypes: Iterable[str], layout: str) -> tuple[str, ...]:
    """The dtypes whose files get suffixes: several, or one that the layout gives its suffix; else none.

    >>> suffixed_dtypes(["q8"], "optimum"), suffixed_dtypes(["q8"], "hub")
    ((), ('q8',))
    """
    names = tuple(dtypes)
    return names if len(names) > 1 or (layout_of(layout).suffixes and names != ("float32",)) else ()


def spec_dtype(dtypes: Iterable[str], layout: str) -> str:
    """The dtype of the spec: the only one whose files get no suffix, else float32."""
    names = tuple(dtypes)
    return names[0] if names and not suffixed_dtypes(names, layout) else "float32"

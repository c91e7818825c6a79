"""The spec and the plan of a request: the spec for a checkpoint with the edits of the request."""

from collections.abc import Callable, Mapping
from functools import reduce
from types import MappingProxyType
from typing import Any, cast

from onnxfn.export.clients.side_files import with_remarks
from onnxfn.export.find.lookup import checkpoint_task, spec_for
from onnxfn.export.jobs.request import ExportRequest
from onnxfn.export.run.planned_files import plan_of_variants
from onnxfn.specs.algebra.compose import compose
from onnxfn.specs.algebra.dummies import known_sizes, sized
from onnxfn.specs.algebra.planned import Plan
from onnxfn.specs.algebra.spec import ExportSpec, FloatDtype
from onnxfn.specs.edits.behaviors import split, with_behavior
from onnxfn.specs.edits.extra_outputs import with_outputs
from onnxfn.specs.edits.optional_inputs import with_input
from onnxfn.specs.edits.providers import for_provider
from onnxfn.specs.edits.renaming import renamed
from onnxfn.specs.edits.tensors import with_dtypes, with_opset, with_shapes, with_tolerance, without
from onnxfn.specs.edits.token_embeddings import with_inputs_embeds
from onnxfn.specs.edits.weights import quantize, with_adapter_inputs
from onnxfn.specs.plan.planning import plan
from onnxfn.specs.tasks.caches import with_expanded_cache, with_shared_cache, with_static_cache
from onnxfn.specs.tasks.tasks import WITH_PAST, for_some_task
from onnxfn.weights.layouts import layout_of
from onnxfn.weights.write import resolved_write_options


def _with_sizes(spec: ExportSpec, sizes: Any, config_or_model: Any) -> ExportSpec:
    known_sizes(plan(spec, config_or_model).parts[0].spec, dict(sizes))
    return compose(spec, sized(**dict(sizes)))


CHANGES: Mapping[str, Callable[[ExportSpec, Any, Any], ExportSpec]] = MappingProxyType(
    {
        "opset": lambda spec, opset, _: with_opset(spec, opset),
        "atol": lambda spec, atol, _: with_tolerance(spec, atol=atol),
        "rtol": lambda spec, rtol, _: with_tolerance(spec, rtol=rtol),
        "split": lambda spec, _, __: split(for_some_task(spec)),
        "within": lambda spec, limit, _: quantize(spec, within=limit),
        "io_dtype": lambda spec, dtype, _: with_dtypes(spec, io=dtype),
        "output": lambda spec, names, _: with_outputs(spec, *names),
        "shape": lambda spec, shapes, _: with_shapes(spec, **dict(shapes)),
        "with_input": lambda spec, names, _: reduce(with_input, names, spec),
        "without": lambda spec, names, _: without(spec, *names),
        "size": _with_sizes,
        "adapter_input": lambda spec, layers, _: with_adapter_inputs(spec, *layers),
        "expanded_cache": lambda spec, _, __: with_expanded_cache(spec),
        "shared_cache": lambda spec, _, __: with_shared_cache(spec),
        "static_cache": lambda spec, length, _: with_static_cache(spec, length),
        "inputs_embeds": lambda spec, _, __: with_inputs_embeds(spec),
        "rename": lambda spec, names, _: renamed(spec, **dict(names)),
    }
)
"""The name of an option that edits the spec -> its change of a spec by the value of the option and a configuration."""


def spec_of(request: ExportRequest, config_or_model: Any) -> ExportSpec:
    """The spec of a request: its own, or that for a configuration or a model, with its edits."""
    if request.spec is not None:
        return request.spec
    values = dict(request.edits)
    spec = _spec(config_or_model, values.pop("task", None), monolith=values.pop("monolith", False))
    dtype = request.dtypes[0] if request.dtypes and not suffixed_of(request) else "float32"
    if (provider := values.pop("provider", None)) is not None:
        spec = for_provider(spec, provider, dtype=dtype if request.dtypes else None)
    else:
        spec = with_dtypes(spec, float=cast("FloatDtype", dtype))
    for name in sorted(values, key="opset".__eq__):  # last: other edits raise an opset that is too low for them
        spec = CHANGES[name](spec, values[name], config_or_model)
    return spec


def _spec(config_or_model: Any, task: str | None, *, monolith: bool) -> ExportSpec:
    """The spec for a task; that of the model in one file, if this is asked for and it would have several."""
    task = task or checkpoint_task(config_or_model)
    spec = spec_for(config_or_model, task)
    if not monolith or len(plan(spec, config_or_model).parts) == 1:
        return spec
    return with_behavior(for_some_task(spec_for(config_or_model, task and task.removesuffix(WITH_PAST))), "monolith")


def plan_of(request: ExportRequest, spec: ExportSpec, config_or_model: Any) -> Plan:
    """The plan of a request with this spec, with what the clients of its layout cannot load of it."""
    layout, dtypes = resolved_write_options(request.write).layout, suffixed_of(request)
    planned = plan_of_variants(
        spec, dtypes, lambda each: plan(each, config_or_model, decoders=request.decoders), layout
    )
    return with_remarks(planned, config_or_model, layout)


def suffixed_of(request: ExportRequest) -> tuple[str, ...]:
    """The dtypes of a request whose files get suffixes: several, or one if the layout wants its suffix; else none."""
    names = request.dtypes
    return names if len(names) > 1 or (layout_of(request.write.layout).suffixes and names != ("float32",)) else ()

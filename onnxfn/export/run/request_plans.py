"""The spec and the plan of a request, for a configuration or a model."""

from __future__ import annotations

from typing import Any

from onnxfn.export.clients.side_files import with_remarks
from onnxfn.export.jobs.request import ExportRequest
from onnxfn.export.run.planned_files import plan_of_variants
from onnxfn.export.run.spec_edits import edited_spec, spec_dtype, suffixed_dtypes
from onnxfn.specs.algebra.planned import Plan
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.plan.planning import plan
from onnxfn.weights.write import resolved_write_options


def spec_of(request: ExportRequest, config_or_model: Any) -> ExportSpec:
    """The spec of a request: its own, or that for the checkpoint with its edits."""
    if request.spec is not None:
        return request.spec
    return edited_spec(config_or_model, request.edits, spec_dtype(request.dtypes, request.write.layout))


def plan_of(request: ExportRequest, spec: ExportSpec, config_or_model: Any) -> Plan:
    """The plan of a request with this spec, with what the clients of its layout cannot load of it."""
    layout, dtypes = resolved_write_options(request.write).layout, suffixed_of(request)
    planned = plan_of_variants(
        spec, dtypes, lambda each: plan(each, config_or_model, decoders=request.decoders), layout
    )
    return with_remarks(planned, config_or_model, layout)


def suffixed_of(request: ExportRequest) -> tuple[str, ...]:
    """The dtypes of a request that give its files suffixes."""
    return suffixed_dtypes(request.dtypes, request.write.layout)

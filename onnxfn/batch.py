"""Many exports in processes of their own."""

from typing import TYPE_CHECKING

from onnxfn.specs.algebra.public_names import public_names

if TYPE_CHECKING:
    from onnxfn import ExportRequest as ExportRequest
    from onnxfn import export_many as export_many
    from onnxfn.export.batch.job_files import read_jobs as read_jobs
    from onnxfn.export.batch.many import batch_preview as batch_preview
    from onnxfn.export.batch.records import BatchEvent as BatchEvent
    from onnxfn.export.batch.records import BatchResult as BatchResult
    from onnxfn.export.batch.records import JobLimits as JobLimits
    from onnxfn.export.batch.records import JobResult as JobResult

__all__, __getattr__, __dir__ = public_names(__name__)

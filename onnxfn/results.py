"""The results of exports and checks."""

from typing import TYPE_CHECKING

from onnxfn.specs.algebra.public_names import public_names

if TYPE_CHECKING:
    from onnxfn import Exported as Exported
    from onnxfn import Report as Report
    from onnxfn.check.bisect.bisect import Divergence as Divergence
    from onnxfn.check.bisect.bisect import TensorPair as TensorPair
    from onnxfn.export.report.doctor import Finding as Finding
    from onnxfn.export.report.doctor import Findings as Findings
    from onnxfn.export.report.verify import Verification as Verification
    from onnxfn.export.run.loaded import Loaded as Loaded
    from onnxfn.specs.results.measurements import SectionError as SectionError
    from onnxfn.specs.stored.diff import Change as Change
    from onnxfn.specs.stored.diff import Changes as Changes
    from onnxfn.specs.stored.reports import Difference as Difference
    from onnxfn.specs.stored.reports import Event as Event
    from onnxfn.weights.adapter_files import write_adapter as write_adapter

__all__, __getattr__, __dir__ = public_names(__name__)

"""The records of a spec, of a plan, and the options of an export."""

from typing import TYPE_CHECKING

from onnxfn.specs.algebra.public_names import public_names

if TYPE_CHECKING:
    from onnxfn import BuildOptions as BuildOptions
    from onnxfn import ExportSpec as ExportSpec
    from onnxfn import Plan as Plan
    from onnxfn import WriteOptions as WriteOptions
    from onnxfn.graphs.build_options import trace_all_layers as trace_all_layers
    from onnxfn.specs.algebra.planned import Case as Case
    from onnxfn.specs.algebra.planned import LeftOut as LeftOut
    from onnxfn.specs.algebra.planned import Part as Part
    from onnxfn.specs.algebra.planned import PlannedSpec as PlannedSpec
    from onnxfn.specs.algebra.spec import Cache as Cache
    from onnxfn.specs.algebra.spec import Call as Call
    from onnxfn.specs.algebra.spec import Check as Check
    from onnxfn.specs.algebra.spec import Dummies as Dummies
    from onnxfn.specs.algebra.spec import Overlay as Overlay
    from onnxfn.specs.algebra.spec import Parts as Parts
    from onnxfn.specs.algebra.spec import Target as Target
    from onnxfn.specs.axes import AxisMap as AxisMap
    from onnxfn.specs.axis_symbols import AxisFacts as AxisFacts
    from onnxfn.specs.records import CacheRow as CacheRow
    from onnxfn.specs.records import Edit as Edit
    from onnxfn.specs.records import File as File
    from onnxfn.specs.records import Generator as Generator
    from onnxfn.specs.records import Getter as Getter
    from onnxfn.specs.records import InputSpec as InputSpec
    from onnxfn.specs.records import NestedDummy as NestedDummy
    from onnxfn.specs.records import Normalizer as Normalizer
    from onnxfn.specs.records import OutputSpec as OutputSpec

__all__, __getattr__, __dir__ = public_names(__name__)

"""Facts: functions that return a spec, to be joined by `compose`."""

from typing import TYPE_CHECKING

from onnxfn.specs.algebra.public_names import public_names

if TYPE_CHECKING:
    from onnxfn import always as always
    from onnxfn import case as case
    from onnxfn import checks as checks
    from onnxfn import compose as compose
    from onnxfn import generates as generates
    from onnxfn import gives as gives
    from onnxfn import kv_cache as kv_cache
    from onnxfn import loads as loads
    from onnxfn import patched as patched
    from onnxfn import reads as reads
    from onnxfn import runs as runs
    from onnxfn import sized as sized
    from onnxfn import takes as takes
    from onnxfn.specs.algebra.compose import EMPTY as EMPTY
    from onnxfn.specs.algebra.dummies import padded as padded
    from onnxfn.specs.algebra.facts import builds as builds
    from onnxfn.specs.algebra.facts import fixes as fixes
    from onnxfn.specs.algebra.facts import links as links
    from onnxfn.specs.algebra.facts import serves as serves
    from onnxfn.specs.axes import axis_map as axis_map
    from onnxfn.specs.edits.behaviors import behaves as behaves
    from onnxfn.specs.edits.caches import cache_row as cache_row
    from onnxfn.specs.edits.caches import cross_cache as cross_cache
    from onnxfn.specs.tasks.tasks import tasked as tasked

__all__, __getattr__, __dir__ = public_names(__name__)

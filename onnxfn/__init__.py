"""Export PyTorch models to ONNX: specs are values, edits are functions, every export is checked.

All public names are here; `__all__` has those that most people need. The modules `facts`, `edits`, `records` and so on
have them by subject. `__init__.pyi` lists both. A name is imported at its first use, so `import onnxfn` itself is fast.
"""

from __future__ import annotations

# The folder has the name of a function. Imported here, it never replaces the function later.
from onnxfn import export
from onnxfn.specs.algebra.public_names import public_names
from onnxfn.specs.version import VERSION

del export

__version__ = VERSION
__all__, __getattr__, __dir__ = public_names(__name__)

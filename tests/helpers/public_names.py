"""All public names of onnxfn, by module: those of the package itself, and those of its modules."""

from importlib import import_module
from pathlib import Path

import onnxfn

MODULES = sorted(path.stem for path in Path(onnxfn.__file__).parent.glob("[!_]*.py"))
VALUES = {
    name: getattr(module, name)
    for module in (*(import_module(f"onnxfn.{name}") for name in MODULES), onnxfn)
    for name in module.__all__
}

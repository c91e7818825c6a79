# For type checkers alone: the type of a function with two forms has a base class.
from collections.abc import Callable
from typing import Concatenate, Generic, ParamSpec, overload

from onnxfn.specs.algebra.spec import ExportSpec

_Parameters = ParamSpec("_Parameters")

class SpecEdit(Generic[_Parameters]):
    __name__: str
    @overload
    def __call__(
        self, spec: ExportSpec, /, *arguments: _Parameters.args, **keywords: _Parameters.kwargs
    ) -> ExportSpec: ...
    @overload
    def __call__(
        self, *arguments: _Parameters.args, **keywords: _Parameters.kwargs
    ) -> Callable[[ExportSpec], ExportSpec]: ...

def pipe(spec: ExportSpec, *edits: Callable[[ExportSpec], ExportSpec]) -> ExportSpec: ...
def as_edit(function: Callable[Concatenate[ExportSpec, _Parameters], ExportSpec]) -> SpecEdit[_Parameters]: ...

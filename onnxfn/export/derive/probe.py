"""The outputs and the cache of a model, found by running it on dummy inputs of several sizes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from onnxfn.architectures.patch_table import patches_of
from onnxfn.architectures.private.renamed import CACHES, INNER_RESULTS
from onnxfn.export.derive.trees import Tensors, all_tensors
from onnxfn.models.dtypes import float_dtypes
from onnxfn.models.forward import raw_forward, tensors_for
from onnxfn.models.model_state import unchanged_eval
from onnxfn.models.patching import applied
from onnxfn.models.torch_modes import eager_branches, quiet
from onnxfn.specs.algebra.compose import compose
from onnxfn.specs.algebra.config_values import snapshot
from onnxfn.specs.algebra.dummies import dummies, size_inputs
from onnxfn.specs.algebra.facts import gives
from onnxfn.specs.algebra.planned import PlannedSpec
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.axes import value
from onnxfn.specs.axis_symbols import traced_sizes
from onnxfn.specs.converters import Path
from onnxfn.specs.errors import OnnxfnError, PatchFailed, first_line, raise_no_memory
from onnxfn.specs.plan.check_cases import cases, in_case, is_far
from onnxfn.specs.plan.planning import resolved
from onnxfn.specs.records import KINDS, Kind

AUXILIARY_FIELDS = frozenset({"loss", "hidden_states", "attentions", "mems", "router_logits", *CACHES, *INNER_RESULTS})
"""Fields of a result that are not answers: the loss, the caches, the tensors of each layer, the results of towers."""

INPUT_REFUSALS = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, NameError, RuntimeError, TypeError, ValueError),
    OnnxfnError,
)
"""The errors that mean a model does not accept inputs. MemoryError, OSError and PatchFailed do not mean this."""


@frozen
class Run:
    """One run of a model: the size of each symbol, and the shapes and kinds of the results by their paths."""

    sizes: Mapping[str, int]
    shapes: Mapping[Path, tuple[int, ...]]
    kinds: Mapping[Path, Kind | None]
    complex_paths: Sequence[Path]


def run(model: Any, spec: PlannedSpec, seed: int = 0) -> Any:
    """Runs a model on the dummy inputs of a planned spec; returns the result of `forward`."""
    return run_on(model, spec, tensors_for(model, spec, dummies(spec, {}, seed=seed)))


def run_on(model: Any, spec: PlannedSpec, tensors: Sequence[Any]) -> Any:
    """Runs a model on the tensors of the inputs of a planned spec; returns the result of `forward`."""
    import torch

    with quiet(), unchanged_eval(model), applied(patches_of(model, spec.call)), eager_branches(), torch.no_grad():
        return raw_forward(model, spec)(tensors)


def run_at_sizes(model: Any, spec: PlannedSpec, select: Callable[[Any], Tensors]) -> tuple[Run, ...]:
    """Runs a model on the dummies of a spec and of its check cases; `select` returns the tensors to record."""
    floats = float_dtypes(model) or {"float32"}

    def recorded(seed: int, sized: PlannedSpec) -> Run:
        tensors = select(run(model, sized, seed))
        axes = (*(input_.axes for input_ in sized.inputs), *size_inputs(sized).values())
        symbols = (axis.symbol for each in axes for axis in each.axes if axis.kind == "dynamic")
        return Run(
            {symbol: value(symbol, traced_sizes(sized)) for symbol in symbols},
            {path: tuple(tensor.shape) for path, tensor in tensors.items()},
            {path: tensor_kind(tensor, floats) for path, tensor in tensors.items()},
            [path for path, tensor in tensors.items() if "complex" in str(tensor.dtype)],
        )

    return tuple(recorded(seed, sized) for seed, sized in enumerate(specs_at_sizes(spec)))


def specs_at_sizes(spec: PlannedSpec) -> tuple[PlannedSpec, ...]:
    """A planned spec at the traced sizes, and in each near case of its check."""
    return (spec, *(in_case(spec, case) for case in cases(spec) if not is_far(case)))


def summary(error: BaseException) -> str:
    """The type of an error and the first line of its message, at most 160 characters."""
    return f"{type(error).__name__}: {first_line(error)}"[:160]


def accepted(
    model: Any, candidates: Iterable[ExportSpec], select: Callable[[Any], Tensors], errors: list[Exception]
) -> Iterator[tuple[ExportSpec, tuple[Run, ...]]]:
    """The candidates on whose inputs a model runs, each with its runs; adds the errors of the others to `errors`."""
    for candidate in candidates:
        try:
            runs = run_at_sizes(model, resolved(candidate, snapshot(model)), select)
        except PatchFailed:
            raise
        except INPUT_REFUSALS as error:
            raise_no_memory(error)
            errors.append(error)
        else:
            yield candidate, runs


def outputs_spec(runs: Sequence[Run], taken: Sequence[str] = ()) -> ExportSpec:
    """A spec of the outputs that all runs have in common, with the symbols of inputs; a lone one is `output`."""
    first = runs[0]
    common = [path for path in first.shapes if len({len(each.shapes.get(path, ())) for each in runs}) == 1]
    names = [f"output_{name}" if name in taken else name for name in output_names(common)]
    return compose(*(_output_spec(name, path, runs) for name, path in zip(names, common, strict=True)))


def answer_tensors(result: Any) -> Tensors:
    """The tensors of a result without AUXILIARY_FIELDS; nested ones only if no others exist."""
    answers = {path: tensor for path, tensor in all_tensors(result).items() if not any(map(_is_auxiliary, path))}
    return {path: tensor for path, tensor in answers.items() if len(path) <= 1} or answers


def output_names(paths: Iterable[Path]) -> list[str]:
    """The names in ONNX of the tensors of a result; a lone one is `output`."""
    return ["output"] if [*paths] == [(0,)] else [*map(onnx_name, paths)]


def onnx_name(path: Path) -> str:
    """The name in ONNX of a tensor at a path of a result: `text_model_output.pooler_output`, or `output_1` for 1."""
    return ".".join(map(str, path)) if isinstance(path[0], str) else "output_" + "_".join(map(str, path))


def tensor_kind(tensor: Any, floats: set[str]) -> Kind | None:
    """The kind of a tensor: `float` for the dtypes of the weights, `int` for int64. Edits can change both dtypes."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    kind: Any = "float" if dtype in floats else "int" if dtype == "int64" else dtype
    return kind if kind in KINDS else None


def _is_auxiliary(step: str | int) -> bool:
    return isinstance(step, str) and (
        step in AUXILIARY_FIELDS or step.endswith(("_hidden_states", "_attentions", "_loss"))
    )


def _output_spec(name: str, path: Path, runs: Sequence[Run]) -> ExportSpec:
    sizes = zip(*(each.shapes[path] for each in runs), strict=True)
    words = (_axis_word(name, axis, axis_sizes, runs) for axis, axis_sizes in enumerate(sizes))
    kind = runs[0].kinds[path] if len({each.kinds[path] for each in runs}) == 1 else None
    return gives(name, " ".join(words), path=() if path == (name,) else path, kind=kind)


def _axis_word(name: str, axis: int, sizes: Sequence[int], runs: Sequence[Run]) -> str:
    """The word of an axis in a pattern: `_` if constant, the symbol whose size it always has, or else a new symbol."""
    if len(set(sizes)) == 1:
        return "_"
    equal = (
        symbol
        for symbol in runs[0].sizes
        if all(each.sizes[symbol] == size for each, size in zip(runs, sizes, strict=True))
    )
    return next(equal, own_symbol(name, axis)).replace(" ", "")


def own_symbol(output: str, axis: int) -> str:
    """The symbol of an axis of an output that no formula of the inputs says."""
    return f"{output.replace('.', '_')}_axis_{axis}"

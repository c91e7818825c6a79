"""`bisect`: the module at which the files of an export begin to differ from PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from attrs import evolve

from onnxfn.check.bisect.bisect import Divergence, divergence, selected_cases
from onnxfn.check.cases.references import affordable_cases, other_sizes, stated_limits
from onnxfn.check.check import compared_file
from onnxfn.check.verdict.verdict import exact_outputs
from onnxfn.export.run.loaded import Loaded, variant_of
from onnxfn.export.run.planned_files import planned_files
from onnxfn.models.dtypes import in_dtype
from onnxfn.models.model_state import model_copy
from onnxfn.run.prompts import export_path
from onnxfn.specs.algebra.dummies import known_sizes
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.errors import refuse_unknown
from onnxfn.specs.plan.planning import Decoders
from onnxfn.specs.plan.real_inputs import real_inputs_by_part
from onnxfn.specs.stored.reports import Exported


def bisect(
    spec: ExportSpec,
    model: Any,
    exported: Exported | Loaded | str | PathLike[str],
    *,
    config: Any = None,
    preprocessor: Any = None,
    decoders: Decoders = "merged",
    case: str | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Divergence:
    """The first tensor that differs between ONNX files and a PyTorch model, by the path of its module.

    In the first failing case, ONNX Runtime computes all values of the file, and PyTorch computes the tensors of all
    modules. They are compared in the order of PyTorch's run. `sizes` makes the cases smaller.

    Args:
        spec: The spec that the files were exported with.
        model: The model, a `torch.nn.Module`.
        exported: The result of `export` or `load`, an ONNX file, or a folder with the files of the plan.
        config: The configuration that the spec reads: a transformers configuration or a dict. None: `model.config`.
        preprocessor: The tokenizer or processor of the model, as for `export`.
        decoders: The decoder files in the folder, as for `export`.
        case: The name of the only case to try. None: all cases of the check that are a single run of a file.
        sizes: Sizes of dynamic axes, which replace those of the cases.

    Returns:
        The first tensor that differs, in the first file that differs. It prints as a few lines.

    Raises:
        UnknownName: No file has a case of this name, or no input an axis of a symbol in `sizes`.
        CheckFailed: ONNX Runtime cannot run a file.

    >>> import tempfile, torch
    >>> from onnxfn import bisect, derived, export
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    >>> spec = derived(model, sample={"input": torch.randn(3, 4)})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     exported = export(spec, model, f"{folder}/model.onnx")
    ...     _ = torch.nn.init.ones_(model[2].weight)
    ...     bisect(spec, model, exported).module
    '2'
    """
    copied = model_copy(model)
    files, dtypes = exported if isinstance(exported, Exported) else export_path(exported), variant_of(exported)
    folder, plan = planned_files(spec, copied, files, config, decoders=decoders, dtypes=dtypes)
    known = [symbol for part in plan.parts for symbol in known_sizes(part.spec, {})]
    for symbol in sizes or {}:
        refuse_unknown("size", symbol, dict.fromkeys(known), of=spec.name or "this spec")
    real_inputs = real_inputs_by_part(plan, preprocessor)
    for part in plan.parts:
        dtype = part.spec.target.float_dtype
        file = folder / f"{part.name}.onnx"
        compared = compared_file(in_dtype(copied, dtype), part, file, exact_outputs(copied, dtype))
        compared = evolve(compared, model=in_dtype(compared.model, compared.dtype or dtype or "float32"))
        near = affordable_cases(copied, part, real_inputs.get(part.name), stated_limits(file))
        cases = (*near, *other_sizes(part, file))
        different = divergence(compared, selected_cases(cases, part, case, dict(sizes or {})))
        if different is not None:
            return different
    return Divergence(", ".join(plan.files))

"""`validate`: ONNX files that exist, compared with a model."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from attrs import evolve

from onnxfn.check.variants.text_references import text_references
from onnxfn.export.run.arguments import check_model, check_values, merged_adapter
from onnxfn.export.run.events import OnEvent, ignore, limited, stage_timer
from onnxfn.export.run.file_checks import Job, check_files, job_of_variant, joined
from onnxfn.export.run.loaded import Loaded, variant_of
from onnxfn.export.run.planned_files import other_variants, planned_files
from onnxfn.models.casting import adapted_copy
from onnxfn.models.submodules import as_module
from onnxfn.models.torch_modes import idle_threads, ticking_operators
from onnxfn.run.prompts import export_path
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.plan.planning import Decoders
from onnxfn.specs.plan.real_inputs import real_inputs_by_part
from onnxfn.specs.plan.variants import plans_by_dtype
from onnxfn.specs.results.measurements import DEFAULT_FLOORS, CheckMode, Floors, check_mode
from onnxfn.specs.stored.reports import Exported, Report


def validate(
    spec: ExportSpec,
    model: Any,
    exported: Exported | Loaded | str | PathLike[str],
    *,
    config: Any = None,
    adapter: str | Path | None = None,
    preprocessor: Any = None,
    decoders: Decoders = "merged",
    check: CheckMode = "whole",
    floors: Floors = DEFAULT_FLOORS,
    on_event: OnEvent = ignore,
    timeout: float | None = None,
    threads: int | None = None,
) -> Report:
    """Compares ONNX files with a PyTorch model, on inputs of sizes that were not traced.

    A difference above the tolerance is not an error: see `Report.passed`. Files of other dtypes in the folder are not
    checked: see `Report.unchecked`.

    Args:
        spec: The spec that the files were exported with.
        model: The model, a `torch.nn.Module`.
        exported: The result of `export`, with all of its dtypes; that of `load`, with the dtype that it was asked for;
            an ONNX file; or a folder with the files of the plan.
        config: The configuration that the spec reads: a transformers configuration or a dict. None: `model.config`.
        adapter: The folder of the adapter that was merged into the files; not used if the files take it as inputs.
        preprocessor: The tokenizer or processor of the model, as for `export`.
        decoders: The decoder files in the folder, as for `export`.
        check: `"whole"` or `"sections"`, as for `export`.
        floors: What quantized and 16-bit files must reach, as for `export`.
        on_event: Called with an `Event`, as by `export`. An exception that it raises stops the check.
        timeout: Seconds after which the check is stopped. None: there is no limit.
        threads: The threads of PyTorch and of ONNX Runtime, as for `export`.

    Returns:
        The largest difference of each output over all cases, and the cases.

    Raises:
        InvalidSpec: The model is not for the task of the spec; or `check` is `"none"`.
        MissingValue: The configuration lacks a value that the spec reads.
        UnknownName: `decoders` or `check` is not a known value.
        ModelNotFound: A file of the plan is missing.
        CheckFailed: ONNX Runtime cannot run a file, or the folder holds files of two exports.
        TimedOut: The check took longer than `timeout`.

    >>> import tempfile, torch
    >>> from onnxfn import derived, export, validate
    >>> model = torch.nn.Linear(4, 2)
    >>> spec = derived(model, sample={"input": torch.randn(3, 4)})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     exported = export(spec, model, f"{folder}/linear.onnx", check=False)
    ...     validate(spec, model, exported).passed, validate(spec, torch.nn.Linear(4, 2), exported).passed
    (True, False)
    """
    model, mode = as_module(model), check_mode(check)
    if mode == "none":
        raise InvalidSpec(f"validate needs a check, and check={check!r} is none; pass 'whole' or 'sections'")
    check_model(spec, model)
    check_values(model)
    path, dtypes = export_path(exported), variant_of(exported)
    files = exported if isinstance(exported, Exported) else path
    with stage_timer(limited(on_event, timeout, "the check")) as (timed, _), idle_threads(threads):
        with timed("plan", "") as tick, ticking_operators(tick):
            copied = adapted_copy(model, merged_adapter(spec, adapter))
            folder, planned = planned_files(spec, copied, files, config, decoders=decoders, dtypes=dtypes)
            real_inputs = real_inputs_by_part(planned, preprocessor)
        texts = text_references(copied, preprocessor)
        job = Job(copied, planned, folder, timed, mode, real_inputs, texts, floors, preprocessor)
        report = joined([check_files(job_of_variant(job, plan)) for plan in plans_by_dtype(planned).values()])
        others = () if path.suffix == ".onnx" else other_variants(folder, planned)
        return evolve(report, unchecked=[*report.unchecked, *others])

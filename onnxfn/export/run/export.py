"""`export`: a spec and a model to checked ONNX files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from attrs import evolve

from onnxfn.export.jobs.request import ExportRequest
from onnxfn.export.run.arguments import check_export_arguments
from onnxfn.export.run.events import OnEvent, ignore
from onnxfn.export.run.pipeline import export_model
from onnxfn.graphs.build_options import BuildOptions
from onnxfn.models.submodules import as_module
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.plan.planning import Decoders
from onnxfn.specs.results.measurements import DEFAULT_FLOORS, CheckMode, Floors
from onnxfn.specs.stored.reports import Exported
from onnxfn.weights.side_files import read_checkpoint
from onnxfn.weights.write import WriteOptions


def export(
    spec: ExportSpec,
    model: Any,
    path: str | Path | BinaryIO | None = None,
    *,
    config: Any = None,
    checkpoint: str | Path | None = None,
    adapter: str | Path | None = None,
    preprocessor: Any = None,
    decoders: Decoders = "merged",
    dtypes: Sequence[str] = (),
    check: bool | CheckMode = "whole",
    floors: Floors = DEFAULT_FLOORS,
    overwrite: bool = False,
    build: BuildOptions = BuildOptions(),
    write: WriteOptions = WriteOptions(),
    on_event: OnEvent = ignore,
    timeout: float | None = None,
    threads: int | None = None,
    calibration: str | Path | Iterable[str] | Callable[[], Iterable[str]] | None = None,
) -> Exported:
    """Writes a PyTorch model as ONNX files and checks them against the model.

    The files appear at `path` when all stages have succeeded. If one fails, nothing appears and an earlier export
    stays as it was. The next export to `path` removes what a killed process left. The model, its configuration and
    its training mode are left as they were. Other threads may call the model meanwhile: a copy on the same weights is
    traced. Only a model that cannot be copied is traced itself.

    The height and the width of images are static if the model takes one size alone, or if no trace holds for others
    and the spec has no range of them: then `Exported.limits` has that size.

    Args:
        spec: The inputs, outputs, dynamic axes and parts of the export.
        model: The model, a `torch.nn.Module`.
        path: A folder, or a file that ends in `.onnx` if the plan has a single part. A folder also gets the
            configuration files of the model, the side files of `checkpoint`, and `report.json` (see `verify`).
            None: a folder for temporary files that the result owns. It is deleted when the result is released, at the
            latest when Python ends; `result.save(path)` writes its files elsewhere. A file object gets the bytes of the
            only ONNX file, so all weights must fit in it.
        config: The configuration that the spec reads: a transformers configuration or a dict. None: `model.config`.
        checkpoint: The folder of the model's checkpoint. Its configuration, tokenizer and preprocessor files are
            copied as they are at the start; other names and links out of the folder are not; its weights are linked if
            `write` says so. A model of transformers on the meta device gets its weights from there.
        adapter: The folder of a LoRA adapter that PEFT wrote. It is merged with the weights that it changes, in their
            dtype and in temporary files; the check compares with the merged model. If the spec has adapters as inputs,
            see `with_adapter_inputs`, it is `<folder>.onnx_adapter` (`_fp16`), and the check runs with and without.
        preprocessor: The tokenizer, image processor, feature extractor or processor of the model. Its output for a
            real input is one more case of the check.
        decoders: The decoder files of an encoder-decoder with a past; a decoder alone is one file. `"merged"`: one,
            with and without a past. `"separate"`: one without and one with a past. `"both"`: all three.
        dtypes: Names of dtypes, such as `("float32", "float16", "q8", "q4")`. Each has files of its own, whose names
            end as transformers.js and Optimum expect: `model.onnx`, `model_fp16.onnx`, `model_quantized.onnx`,
            `model_q4.onnx`. The model is traced once for each float dtype. If one dtype fails, no file appears. Empty:
            the files have the dtype of the spec, and no ending.
        check: How ONNX Runtime's outputs are compared with PyTorch's. `"whole"` or True: each file as it is.
            `"sections"`: one layer at a time, for models larger than memory; see `Report.sections`. `"none"` or False.
        floors: What a quantized or 16-bit variant must reach in each measure, where it is not the default: see
            `Floors`. A part reads a text of the package, or pictures that are made, as `preprocessor` or the
            tokenizer of `checkpoint` computes them.
        overwrite: Whether `path` may exist. Files of equal names are replaced, of a checkpoint, too. What an earlier
            export wrote, ONNX files, their data and unchanged side files, is deleted if this one does not replace it.
        build: How graphs are built: repeated layers, template cache.
        write: How files are laid out and where weights are stored.
        on_event: Called with an `Event`, in the thread of this call, when a stage starts, up to four times a second
            while it runs, and when it ends or fails. `progress()` is one that draws a bar. To stop the export, let it
            raise an exception: that comes out of this call, and nothing is written. An operator of PyTorch that runs
            ends first, so it takes up to a second, longer for larger operators. If ONNX Runtime was loading a file, its
            thread ends by itself, up to a few seconds later.
        timeout: Seconds after which the export is stopped. None: there is no limit.
        threads: The threads of PyTorch and of ONNX Runtime. None: as many as cores are idle, at most those of PyTorch.
        calibration: A text file, texts (a list, a column of a dataset, a generator), or a function that returns texts.
            4,096 tokens of them choose the codes of calibrated weights, `dtypes=["q4c"]`, and the scales of
            activations, `["int8-static"]`: like what the model will read. For scales, it may be an `.npz` file with the
            rows of each input. None: parts of the help of Python, or pictures that are made.

    Returns:
        The paths of the files, the plan, the report of the check, and the seconds of each stage. `result(**inputs)`,
        `result.session()` and `result.model_proto()` run, open and read the files: see `Exported`.

    Raises:
        InvalidSpec: An argument is of another type than it must be, a weight of the model has no value (it is on the
            meta device), the model is not for the task of the spec, the plan has several parts and `path` is a file,
            `path` is a file object and the weights need a file of their own, which is known at the end, or weights are
            to be linked and there is no `checkpoint`. Or the adapter does not fit the model, or has a feature that
            cannot be merged.
        ModelNotFound: There is no folder `checkpoint`, or no adapter in the folder `adapter`.
        LoadFailed: A file of the adapter is damaged.
        MissingValue: The configuration lacks a value that the spec reads.
        UnknownName: `decoders` or one of `dtypes` is not a known value.
        OutputExists: `path` exists, at the start or when the files are complete, and `overwrite` is False. Or
            `path` is a link to nothing, or lies below a file: then `overwrite` does not help.
        CaptureFailed: The model could not be traced with the planned inputs, outputs and axes.
        CheckFailed: ONNX Runtime cannot run a file, or its outputs differ from PyTorch's by more than the tolerance.
        WriteFailed: The operating system refuses to read or write a file: no space, no permission, a name too long.
        TimedOut: The export took longer than `timeout`.

    >>> import tempfile, torch
    >>> from onnxfn import derived, export
    >>> model = torch.nn.Linear(4, 2)
    >>> spec = derived(model, sample={"input": torch.randn(3, 4)})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     exported = export(spec, model, f"{folder}/linear.onnx")
    >>> exported.outputs, exported.report.passed
    ({'output': {0: 'batch_size'}}, True)
    >>> export(spec, model)(input=torch.randn(5, 4))["output"].shape
    (5, 2)
    """
    check_export_arguments(spec, as_module(model), path, checkpoint)
    of_spec = ExportRequest("", "", spec=spec, dtypes=dtypes, decoders=decoders, adapter=adapter)
    request = evolve(
        of_spec, check=check, floors=floors, overwrite=overwrite, write=write, threads=threads, calibration=calibration
    )
    known = {"config": config, "checkpoint": None if checkpoint is None else read_checkpoint(Path(checkpoint))}
    return export_model(
        request, spec, model, path, build, **known, preprocessor=preprocessor, on_event=on_event, timeout=timeout
    )

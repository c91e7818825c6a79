"""Verification of the files of an export against its report, without the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from attrs import field

from onnxfn.export.report import report_file
from onnxfn.specs.converters import as_tuple
from onnxfn.specs.errors import InvalidSpec, ModelNotFound, first_line, shortened
from onnxfn.specs.record import record
from onnxfn.specs.results.measurements import rounded
from onnxfn.specs.short_repr import counted
from onnxfn.weights.digests import foreign_data, sha256_of
from onnxfn.weights.layouts import LAYOUTS
from onnxfn.weights.names import file_fault
from onnxfn.weights.onnx_files import data_fault, external_data_names, written_by_onnxfn


@record
class Verification:
    """The result of `verify`. It prints as one line if all is right, else as one line per fault.

    Attributes:
        folder: The folder.
        files: The number of files in the reports.
        bytes: Their size in all.
        checks: The check at the time of the export, one line for each report.
        faults: One line for each fault.
        others: The number of files in the folder that no report lists, such as those of schedulers.

    >>> print(Verification("out", 2, 1000, ["model.onnx: check passed"]))
    out: verified 2 files, 1000 bytes; model.onnx: check passed
    """

    folder: str
    files: int
    bytes: int
    checks: tuple[str, ...] = field(default=(), converter=as_tuple)
    faults: tuple[str, ...] = field(default=(), converter=as_tuple)
    others: int = 0

    @property
    def passed(self) -> bool:
        """Whether there is a report, and no fault."""
        return bool(self.checks) and not self.faults

    def __str__(self) -> str:
        if self.faults:
            return "\n".join(self.faults)
        others = [f"{counted(self.others, 'other files')} in no report, not compared"] if self.others else []
        of_checks = "; ".join([*self.checks, *others])
        return f"{self.folder}: verified {counted(self.files, 'files')}, {self.bytes} bytes; {of_checks}"


def verify(folder: str | Path) -> Verification:
    """Compares the files in a folder with the `report.json` that the export wrote there. The model is not needed.

    There is no fault if all files of the export have their digests, and the graphs have the opset, types, inputs and
    outputs of the report. Each file is read once, in chunks. A folder without a report may hold the parts of a pipeline
    of diffusers: then each folder in it that has a report is verified.

    Args:
        folder: The folder of an export.

    Returns:
        The number of compared files, the check in the report, and the faults.

    Raises:
        ModelNotFound: There is no such folder.

    >>> import tempfile, torch
    >>> from onnxfn import derived, export, verify
    >>> model = torch.nn.Linear(4, 2)
    >>> spec = derived(model, sample={"input": torch.randn(3, 4)})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     exported = export(spec, model, f"{folder}/out", check=False)
    ...     before = verify(f"{folder}/out")
    ...     Path(exported.files[0]).unlink()
    ...     after = verify(f"{folder}/out")
    >>> before.passed, before.checks, after.passed, len(after.faults)
    (True, ('the export was not checked',), False, 1)
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ModelNotFound(f"no folder {folder}; verify takes the folder of an export")
    parts = report_file.report_folders(folder)
    if not parts:
        causes = "it is no export, one of an older onnxfn, or its report is gone"
        missing = f"no {report_file.REPORT_FILE} in {folder}: {causes}; export it again"
        return Verification(str(folder), 0, 0, faults=[missing])
    results = [_verified(part) for part in parts]
    listed = sum(result.files for result in results)
    every = sum(file.is_file() for file in folder.rglob("*"))
    return Verification(
        str(folder),
        listed,
        sum(result.bytes for result in results),
        [check for result in results for check in result.checks],
        [fault for result in results for fault in result.faults],
        max(0, every - listed - len(parts)),
    )


def _verified(folder: Path) -> Verification:
    """The result of comparing the files in a folder with the report in it."""
    file = folder / report_file.REPORT_FILE
    try:
        report = report_file.read_report(file)
    except (OSError, InvalidSpec) as error:
        verb = "used" if isinstance(error, InvalidSpec) else "read"
        return Verification(str(folder), 0, 0, faults=[f"{file} cannot be {verb}: {first_line(error)}"])
    faults = [
        *(fault for path, facts in report.files.items() for fault in _file_faults(folder / path, facts)),
        *(fault for path, facts in report.graphs.items() for fault in _graph_faults(folder / path, facts)),
        *(fault for path in report.graphs for fault in _weight_faults(folder, path, report)),
        *_foreign_graphs(folder, report.files),
    ]
    check = _check_words(report) if report.status == report_file.PASSED else "the export was not checked"
    size = sum(facts.bytes for facts in report.files.values())
    return Verification(str(folder), len(report.files), size, [check], faults)


def _check_words(report: report_file.ExportReport) -> str:
    """The check at the export, in words: measurements on texts for a quantized file, else its comparisons."""
    words = [f"{output} {name} {rounded(value)}" for output, name, value in report.measurements if name != "cases"]
    number = counted(report.comparisons, "comparisons")
    compared = [f"check of {number} passed at the export"] if report.comparisons or not words else []
    return ", ".join([*compared, *([f"measured at the export: {', '.join(words)}"] if words else [])])


def _file_faults(file: Path, facts: report_file.FileFacts) -> Iterator[str]:
    """The faults of a file of the export. The digest of a file of another size is not computed."""
    try:
        if not file.is_file():
            yield f"{file} is missing"
        elif file.stat().st_size != facts.bytes:
            yield f"{file} has {file.stat().st_size} bytes, not {facts.bytes}"
        elif sha256_of(file) != facts.sha256:
            yield f"{file} was changed or exchanged: its SHA-256 is not that of the report"
    except OSError as error:
        yield f"{file} cannot be read: {first_line(error)}"


def _graph_faults(file: Path, stated: Mapping[str, Any]) -> Iterator[str]:
    """The faults of a graph: it cannot be read, or it differs from the report."""
    if not file.is_file():
        return
    try:
        facts = report_file.graph_facts(file)
    except (OSError, ValueError) as error:
        yield f"{file} is not an ONNX file: {first_line(error)}"
        return
    for name, value in facts.items():
        if stated.get(name) != value:
            yield f"{name} of {file} is {shortened(value)}, not as the report states"


def _weight_faults(folder: Path, path: str, report: report_file.ExportReport) -> Iterator[str]:
    """The faults of the external data of a graph: it is outside the folder, or not of this export."""
    file = folder / path
    without_weights = report.options.get("weight_storage") == "none"
    if fault := data_fault(file):
        yield f"{file} is not read: {fault}"
        return
    for name in sorted(external_data_names(file)):
        if (PurePosixPath(path).parent / name).as_posix() not in report.files and not without_weights:
            yield f"{file} has its weights in {name}, which is not a file of the export"
    yield from (f"{file.parent / name} was written by another export than {file.name}" for name in foreign_data(file))


def _foreign_graphs(folder: Path, files: Iterable[str]) -> Iterator[str]:
    """ONNX files of another export of onnxfn in the folders in which programs look for ONNX files, and links there."""
    for subfolder in sorted({layout.subfolder for layout in LAYOUTS.values()}):
        inner = folder / subfolder
        for file in sorted(inner.glob("*.onnx")) if file_fault(inner, folder) is None else [inner]:
            if fault := file_fault(file, folder):
                yield f"{file} {fault}"
            elif file.relative_to(folder).as_posix() not in files and written_by_onnxfn(file):
                yield f"{file} is of another export: the report does not name it"

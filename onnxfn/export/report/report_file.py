"""`report.json`: what an export wrote, how, and what its check found, without times and outer paths: see REPORT.md."""

import json
import platform
from collections.abc import Collection, Iterable, Mapping
from hashlib import sha256
from math import inf, isfinite, prod
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

from attrs import asdict, evolve, frozen

from onnxfn.export.jobs.options import Values
from onnxfn.specs.algebra.planned import Plan
from onnxfn.specs.algebra.public_calls import installed_version
from onnxfn.specs.errors import InvalidSpec, OnnxfnError, first_line, listed, shortened
from onnxfn.specs.plan.variants import plans_by_dtype
from onnxfn.specs.results.measurements import Measurement, SectionError, multiple
from onnxfn.specs.stored.reports import Difference, Exported, GraphSize, Report, Tick, no_tick
from onnxfn.specs.stored.serialize import to_plain
from onnxfn.specs.version import VERSION
from onnxfn.weights.digests import sha256_of
from onnxfn.weights.names import file_fault, name_fault
from onnxfn.weights.onnx_files import onnx_model, stored_tensors
from onnxfn.weights.write import ResolvedWriteOptions

REPORT_FILE = "report.json"
SCHEMA, SCHEMA_VERSION = "onnxfn-report", 1
"""What the file says it is. The version grows when a field changes its meaning or goes; new fields may come."""

SECTIONS = ("files", "graphs", "check", "options")
"""The fields that a reader needs."""

PACKAGES = ("torch", "transformers", "onnx", "onnx-ir", "onnxscript", "onnxruntime", "numpy")
"""Packages whose versions are in the report."""

FIGURES = ("part", "output", "passed", "max_abs", "max_rel", "tolerance", "own_error", "worst_case", "references")
"""The fields of `Difference` that are in the report, null where a check has no such figure."""

PASSED = "passed"
"""The status of a check; else `not checked`. A check that failed leaves no files."""


def report_content(
    files: Mapping[Path, str],
    folder: Path,
    plan: Plan,
    report: Report | None,
    options: ResolvedWriteOptions,
    weights_from: str = "",
    values: Values | None = None,
    tick: Tick = no_tick,
) -> dict[str, Any]:
    """The content of `report.json` about all other files of an export, each with its SHA-256, or an empty text."""
    plans = {dtype: each for dtype, each in plans_by_dtype(plan).items() if dtype is not None}
    variants = {dtype: [part.name for part in each.parts] for dtype, each in plans.items()}
    return {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "name": plan.parts[0].spec.name,
        "task": plan.task,
        "versions": {"onnxfn": VERSION, "python": platform.python_version(), **package_versions()},
        "plan_sha256": plan_digest(plan),
        "modalities": list(plan.modalities),
        "left_out": [asdict(omitted) for omitted in plan.left_out],
        "remarks": list(plan.remarks),
        "request": None if values is None else dict(values),
        "options": {
            "layout": options.layout.name,
            "weight_storage": options.weight_storage,
            "external_data_threshold": options.external_data_threshold,
            "external_data_suffix": options.external_data_suffix,
        },
        "weights_from": weights_from,
        **({"variants": variants} if variants else {}),
        **({"chosen_bits": [asdict(each) for each in plan.chosen]} if plan.chosen else {}),
        "check": check_facts(report),
        **file_facts(folder, files, tick),
    }


def with_sizes(content: Mapping[str, Any], sizes: Iterable[GraphSize], limits: Iterable[Any]) -> dict[str, Any]:
    """The content of `report.json` with the limits, and with the parameters and the nodes of each graph."""
    by_part = {size.part: {"parameters": size.parameters, "nodes": size.nodes} for size in sizes}
    graphs = {path: {**facts, **by_part.get(PurePosixPath(path).stem, {})} for path, facts in content["graphs"].items()}
    return {**content, "limits": list(dict.fromkeys(map(str, limits))), "graphs": graphs}


def write_report(content: Mapping[str, Any], folder: Path) -> Path:
    """Writes `report.json` to a folder; returns its path."""
    path = folder / REPORT_FILE
    path.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    return path


def with_remark(exported: Exported, folder: Path, remark: str) -> Exported:
    """The result of an export with one more remark, also in the `report.json` of its folder."""
    content = json.loads((folder / REPORT_FILE).read_bytes())
    write_report(content | {"remarks": [*content["remarks"], remark]}, folder)
    return evolve(exported, plan=evolve(exported.plan, remarks=(*exported.plan.remarks, remark)))


@frozen
class FileFacts:
    """The size and the SHA-256 of a file, as a report states them."""

    bytes: int
    sha256: str


@frozen
class ExportReport:
    """What a `report.json` says: files with size and digest, facts of graphs, comparisons, measurements."""

    files: Mapping[str, FileFacts]
    graphs: Mapping[str, Mapping[str, Any]]
    options: Mapping[str, Any]
    status: str
    comparisons: int
    measurements: tuple[tuple[str, str, float], ...]


def report_folders(folder: Path) -> list[Path]:
    """The folders of the reports of an export: `folder`, or those in it that hold the parts of a pipeline."""
    if (folder / REPORT_FILE).is_file():
        return [folder]
    reports = sorted(folder.glob(f"*/{REPORT_FILE}"))
    return [report.parent for report in reports if file_fault(report.parent, folder) is None]


def is_foreign_report(file: Path) -> bool:
    """Whether there is a file of this name that onnxfn did not write, or that cannot be read."""
    try:
        return file.exists() and _content(file) is None
    except OSError:
        return True


def recorded(folder: Path) -> ExportReport | None:
    """The report in a folder; None if there is none that can be used."""
    try:
        return read_report(folder / REPORT_FILE)
    except (OSError, InvalidSpec):
        return None


def read_report(file: Path) -> ExportReport:
    """A report that onnxfn wrote. InvalidSpec if the file is another one, OSError if it cannot be read."""
    content = _content(file)
    if content is None:
        raise InvalidSpec("it is not one of onnxfn's")
    if content.get("schema_version") != SCHEMA_VERSION:
        raise InvalidSpec(f"its schema_version is {shortened(content.get('schema_version'))}, not {SCHEMA_VERSION}")
    if not all(isinstance(content.get(section), dict) for section in SECTIONS):
        raise InvalidSpec(f"it lacks one of {listed(SECTIONS)}")
    files = {name: _file_facts(name, facts, file.parent) for name, facts in content["files"].items()}
    for name, facts in content["graphs"].items():
        if name not in files or not isinstance(facts, dict):
            raise InvalidSpec(f"{shortened(name)} is not among its files")
    check = content["check"]
    if not isinstance(check.get("outputs"), list) or not isinstance(check.get("status"), str):
        raise InvalidSpec("its check has no status or no outputs")
    measured = check.get("measurements") or []
    measurements = tuple(map(_measurement, measured if isinstance(measured, list) else [measured]))
    return ExportReport(
        files, content["graphs"], content["options"], check["status"], len(check["outputs"]), measurements
    )


def _content(file: Path) -> dict[str, Any] | None:
    """The JSON of a report that onnxfn wrote; None if the file is another one, or one of another folder."""
    if file_fault(file, file.parent):
        return None
    try:
        content = json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) and content.get("schema") == SCHEMA else None


def _file_facts(name: str, facts: Any, folder: Path) -> FileFacts:
    if fault := name_fault(name, folder):
        raise InvalidSpec(f"it names {shortened(name)}, which {fault}")
    match facts:
        case {"bytes": int(size), "sha256": str(digest)}:
            return FileFacts(size, digest)
    raise InvalidSpec(f"{shortened(name)} has no size or no digest")


def _measurement(facts: Any) -> tuple[str, str, float]:
    match facts:
        case {"part": str(part), "output": str(output), "measure": str(measure), "value": int() | float() as value}:
            return f"{part}.onnx {output}", measure, value
    raise InvalidSpec(f"its check has a measurement that cannot be read: {shortened(facts)}")


def plan_digest(plan: Plan) -> str:
    """The SHA-256 of the parts of a plan as canonical JSON: keys in order, no spaces."""
    plain = to_plain(evolve(plan, left_out=(), weight_bytes=(), chosen=(), remarks=()))
    return sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def file_facts(folder: Path, files: Mapping[Path, str], tick: Tick = no_tick) -> dict[str, Any]:
    """Size and digest of each file, which is read if that is unknown, and the facts of each graph, by their paths."""
    ordered = sorted((file.relative_to(folder).as_posix(), file) for file in files)
    return {
        "graphs": {path: graph_facts(file) for path, file in ordered if file.suffix == ".onnx"},
        "files": {
            path: {"bytes": file.stat().st_size, "sha256": files[file] or sha256_of(file, tick)}
            for path, file in ordered
        },
    }


def graph_facts(file: Path) -> dict[str, Any]:
    """Opset, type of the weights, inputs and outputs of an ONNX file; ValueError if it is none."""
    model = onnx_model(file)
    opsets = {each.domain: each.version for each in model.opset_import}
    defaults = {each.name for each in model.graph.initializer}
    # The type is that of most of the floating point numbers.
    floats = {name: facts["elements"] for name, facts in weights_by_dtype(file).items() if "float" in name}
    return {
        "opset": opsets.get("", 0),
        "opsets": dict(sorted(opsets.items())),
        "dtype": max(sorted(floats), key=floats.__getitem__, default=None),
        "inputs": [_port(value, defaults) for value in model.graph.input],
        "outputs": list(map(_port, model.graph.output)),
    }


def _port(value: Any, defaults: Collection[str] = ()) -> dict[str, Any]:
    """Name, type, axes (a size, a symbol, or null) of an input or output; `optional` if it is one of these defaults."""
    from onnx import TensorProto

    tensor = value.type.tensor_type
    shape = [axis.dim_value if axis.HasField("dim_value") else (axis.dim_param or None) for axis in tensor.shape.dim]
    port = {"name": value.name, "dtype": dtype_name(TensorProto.DataType.Name(tensor.elem_type)), "shape": shape}
    return port | ({"optional": True} if value.name in defaults else {})


def weights_by_dtype(file: Path) -> dict[str, dict[str, int]]:
    """For each dtype of initializers the number of tensors, elements and bytes, the most bytes first."""
    sums: dict[str, dict[str, int]] = {}
    for tensor in stored_tensors(file):
        facts = sums.setdefault(dtype_name(tensor.dtype), {"tensors": 0, "elements": 0, "bytes": 0})
        facts["tensors"] += 1
        facts["elements"] += prod(tensor.shape)
        facts["bytes"] += tensor.length
    return dict(sorted(sums.items(), key=lambda item: -item[1]["bytes"]))


def dtype_name(onnx_name: str) -> str:
    """The name of a type of ONNX, as numpy and torch spell it."""
    return {"FLOAT": "float32", "DOUBLE": "float64"}.get(onnx_name, onnx_name.lower())


def package_versions() -> dict[str, str | None]:
    """The versions of the packages that build, write and check graphs; None for one that is not installed."""
    return {name: installed_version(name) for name in PACKAGES}


def check_facts(report: Report | None) -> dict[str, Any]:
    """What a check found, as JSON has it."""
    status, report = ("not checked", Report(())) if report is None else (PASSED, report)
    return {
        "status": status,
        "cases": list(report.cases),
        "outputs": [
            _finite({name: to_plain(getattr(each, name, None)) for name in FIGURES})
            | {"of_bound": _finite({case: float(f"{multiple(error, of):.6g}") for case, error, of in each.errors})}
            for each in report.differences
        ],
        "measurements": [asdict(measurement) for measurement in report.measurements],
        "sections": [_finite(asdict(section)) for section in report.sections],
    }


def report_of(check: Mapping[str, Any]) -> Report | None:
    """The report of a check from the JSON of it; None if there was no check. InvalidSpec for other JSON."""
    if check["status"] != PASSED:
        return None
    try:
        differences = [_difference(**each) for each in check["outputs"]]
        measurements, sections = (
            [record(**each) for each in check.get(name, ())]
            for name, record in (("measurements", Measurement), ("sections", SectionError))
        )
        return Report(differences, check["cases"], (), measurements, sections)
    except (KeyError, TypeError, ValueError, AttributeError, OnnxfnError) as error:
        raise InvalidSpec(f"its check cannot be read: {first_line(error)}") from error


def _difference(of_bound: Mapping[str, float | None] = MappingProxyType({}), **figures: Any) -> Difference:
    """The difference of an output from the JSON of it. Errors are multiples of what is allowed; null is infinite."""
    errors = tuple((case, inf if each is None else float(each), 1.0) for case, each in of_bound.items())
    known = {name: inf if figures[name] is None else figures[name] for name in ("max_abs", "max_rel", "tolerance")}
    return Difference(
        **{**figures, **known, "references": tuple(figures["references"]), "shapes": (), "errors": tuple(errors)}
    )


def _finite(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Figures with null in place of numbers that JSON does not have."""
    infinite = {name for name, value in figures.items() if isinstance(value, float) and not isfinite(value)}
    return {name: None if name in infinite else value for name, value in figures.items()}

"""The files of an export besides its graphs: configuration, side files, card, report; and the returned record."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from attrs import evolve

from onnxfn.export.clients.card import write_card
from onnxfn.export.clients.side_files import write_side_files
from onnxfn.export.jobs.options import Values
from onnxfn.export.load.quantized import weights_from
from onnxfn.export.publish.publishing import checkpoint_files
from onnxfn.export.publish.staging import Destination
from onnxfn.export.report.report_file import file_facts, package_versions, report_content, with_sizes, write_report
from onnxfn.export.run.attempts import Built
from onnxfn.export.run.loaded import Loaded
from onnxfn.graphs.fusions.fusing import fusions
from onnxfn.graphs.quantization.quantized_slots import graph_size, weight_bytes
from onnxfn.specs.algebra.planned import WeightBytes
from onnxfn.specs.algebra.quantized_dtypes import quality_remarks
from onnxfn.specs.stored.reports import Exported, GraphSize, NotQuantized, Tick
from onnxfn.specs.version import VERSION
from onnxfn.weights.layouts import write_configs
from onnxfn.weights.side_files import Checkpoint, copy_side_files
from onnxfn.weights.write import ResolvedWriteOptions


def with_quality(built: Built) -> Built:
    """What was built, whose plan has a remark for each file of poor quality, and for a slow dtype."""
    measured = built.report.measurements if built.report else ()
    is_quantized = any(part.spec.target.quantization for part in built.plan.parts)
    remarks = quality_remarks(built.plan, measured) if measured or is_quantized else []
    return evolve(built, plan=evolve(built.plan, remarks=(*built.plan.remarks, *remarks)))


def complete_folder(
    built: Built,
    side_files: Iterable[Path],
    staging: Path,
    destination: Destination,
    options: ResolvedWriteOptions,
    values: Values | None,
    tick: Tick,
) -> tuple[Path, ...]:
    """Writes the files of an export besides graphs and files of the checkpoint; returns all files."""
    written = {file.name for file in built.files}
    sidecars = [
        f"{part.name}.onnx" for part in built.plan.parts if f"{part.name}{options.external_data_suffix}" in written
    ]
    new = write_side_files(staging, built.plan, options.layout, sidecars, checkpoint_files(destination.folder))
    every_file = {**built.files, **dict.fromkeys((*side_files, *new), "")}
    of_report = (built.report, options, built.weights_from, values)
    content = report_content(every_file, staging, built.plan, *of_report, tick)
    content = with_sizes(content, sizes_of(built, {}), (limit for graph in built.graphs for limit in graph.limits))
    cards = write_card(content, staging, destination.folder) if options.layout.has_card else ()
    of_cards = file_facts(staging, dict.fromkeys(cards, ""))["files"]
    content = {**content, "files": dict(sorted({**content["files"], **of_cards}.items()))}
    return (*every_file, *cards, write_report(content, staging))


def write_checkpoint_files(model: Any, checkpoint: Checkpoint | None, folder: Path) -> tuple[Path, ...]:
    """Writes the model's configuration, which states float weights, and copies tokenizer files of the checkpoint."""
    files = (*write_configs(model, folder), *(copy_side_files(checkpoint, folder) if checkpoint else ()))
    return (*files, *(write_configs(model, folder) if weights_from(model) else ()))


def sizes_of(built: Built, bytes_of: Mapping[Path, int]) -> list[GraphSize]:
    """How large each graph is. The external data of a graph has its name up to the first dot."""
    sums = Counter[str]()
    for file, size in bytes_of.items():
        sums[file.name.partition(".")[0]] += size
    parts = (part.name for part in built.plan.parts)
    return [graph_size(name, graph.model, sums[name]) for name, graph in zip(parts, built.graphs, strict=True)]


def exported_result(loaded: Loaded, built: Built, seconds: Mapping[str, float]) -> Exported:
    """The result of an export: its files, and facts about its graphs."""
    graphs = [*zip((part.name for part in built.plan.parts), built.graphs, strict=True)]
    return Exported(
        path=loaded.path,
        files=loaded.files,
        plan=evolve(built.plan, weight_bytes=[WeightBytes(name, weight_bytes(graph.model)) for name, graph in graphs]),
        opset=built.graphs[0].model.opset_imports[""],
        seconds=seconds.items(),
        report=built.report,
        limits=dict.fromkeys(limit for graph in built.graphs for limit in graph.limits),
        repeats=built.traced_layers,
        fusions=[(name, fusions(graph.model)) for name, graph in graphs],
        graphs=sizes_of(built, {Path(file): Path(file).stat().st_size for file in loaded.files}),
        bytes=sum(Path(file).stat().st_size for file in loaded.files),
        versions=[("onnxfn", VERSION), *((name, version) for name, version in package_versions().items() if version)],
        weights_from=built.weights_from,
        not_quantized=[NotQuantized(name, *weight) for name, graph in graphs for weight in graph.not_quantized],
        loaded=loaded,
    )

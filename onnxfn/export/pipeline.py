"""The one pipeline: plan -> capture -> passes -> write -> check."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from time import perf_counter
from typing import Any

from attrs import evolve, frozen

from onnxfn.check.check import check as checked
from onnxfn.check.check import check_error
from onnxfn.check.references import references
from onnxfn.check.sessions import open_check_session
from onnxfn.export.lookup.derive import HOW_TO_SPECIFY
from onnxfn.export.lookup.lookup import with_model_task
from onnxfn.export.recipes import Recipe, graphs_of
from onnxfn.graphs.build import (
    TRACED_LAYERS,
    BuildOptions,
    FindRepeats,
    build_graph,
    drop_templates,
    trace_all_layers,
    traced_fully,
)
from onnxfn.graphs.capture.capture import LIMITS
from onnxfn.graphs.capture.forward import in_dtype
from onnxfn.graphs.capture.repeated_layers import repeated_layers
from onnxfn.graphs.passes.fusing import STANDARD, check_fuse_option, fusions
from onnxfn.specs.config_values import config_of
from onnxfn.specs.dummies import Array
from onnxfn.specs.errors import InvalidSpec, ModelNotFound, OnnxfnError, OutputExists
from onnxfn.specs.plan.planning import plan
from onnxfn.specs.plan.real_inputs import real_inputs_by_part
from onnxfn.specs.planned import Plan
from onnxfn.specs.reports import Event, Exported, Report, StageTimer
from onnxfn.specs.spec import ExportSpec
from onnxfn.weights.layouts import (
    OPTIMUM,
    Layout,
    copy_side_files,
    declare_external_data,
    onnx_folder,
    write_configs,
    write_texts,
)
from onnxfn.weights.placement import PROTOBUF_LIMIT, publish, staging_folder
from onnxfn.weights.write import (
    ResolvedWriteOptions,
    WriteOptions,
    resolved_write_options,
    with_checkpoint_entries,
    write_graphs,
)

RETRACED = "every layer traced: the check convicted the graph that a few layers told, or that was kept"

OnEvent = Callable[[Event], None]

RealInputs = Mapping[str, Mapping[str, Array]]
"""From the name of a part to the inputs that a preprocessor computed for it."""


def ignore(_: Event) -> None:
    """Ignore an event."""


def export(
    spec: ExportSpec,
    model: Any,
    path: str | Path,
    *,
    check: bool = True,
    overwrite: bool = False,
    checkpoint: Path | None = None,
    config: Any = None,
    preprocessor: Any = None,
    decoders: str = "merged",
    fuse: str = STANDARD,
    layout: str = OPTIMUM,
    sidecar: str | None = None,
    threshold: int = PROTOBUF_LIMIT,
    weights: str | None = None,
    repeats: FindRepeats = repeated_layers,
    templates: Path | None = None,
    on_event: OnEvent = ignore,
) -> Exported:
    """Write a PyTorch model as ONNX and prove it against PyTorch; what was written, and how far it is off.

    `path` is a file (`model.onnx`) or a folder, which also gets the model's `config.json`, and the tokenizer and
    processor files of the folder `checkpoint`. `config` is the configuration of a model that carries none, or a dict
    of what the spec reads. What the model's `preprocessor` makes of a real input is one more case of the check.
    `decoders` is `"merged"` (one decoder file), `"separate"` (with and without a past), or `"both"`. `on_event` hears
    it.

    Weights of more than `threshold` bytes go to a file of their own, named with `sidecar`. `weights="share"` stores
    what several ONNX files read in that of the first, `"copy"` with each. `"link"` leaves what lies unchanged in the
    checkpoint's safetensors files there, hard-linked beside the ONNX file; `"none"` writes no weights. `layout` is the
    program that a folder is for: with `"optimum"` files share, for `"transformers.js"` they do not, and lie in `onnx/`.

    Of layers that are all alike, as `repeats` finds them, a few are traced and prove the others; `trace_all_layers`
    finds none. `templates` is a folder where graphs are kept without weights, and taken from for the next model that
    differs in values alone. `fuse="onnxruntime"` lets operators in that only ONNX Runtime has, and makes one matrix of
    several of a module that multiply the same.

    The files appear only when all is well: InvalidSpec when the model is not one for the spec's task, or `"link"` is
    told of no checkpoint, OutputExists when the place is taken and `overwrite` is false, CaptureFailed when the model
    cannot be traced as planned, CheckFailed when ONNX Runtime answers otherwise than PyTorch. The model is left as is.
    """
    fitted = with_model_task(spec, model)
    place = target(Path(path), overwrite=overwrite)
    making = BuildOptions(find_repeats=repeats, template_cache=templates, pretranspose=weights != "link", fuse=fuse)
    asked = _write_options(layout, weights, threshold, sidecar)
    asked = with_checkpoint_entries(asked, checkpoint, _graphs(place, asked.layout), overwrite=overwrite)
    with owned(spec), _timed(on_event) as (timed, seconds):
        with timed("plan", ""):
            decided = plan(fitted, _config(model, config), decoders=decoders)
            made = _in_file(decided, place)
            check_fuse_option(made.parts[0].spec.target.opset or 0, fuse)
            real = real_inputs_by_part(made, preprocessor)
        with staging_folder(_folder(place)) as bench:
            done = _proven(model, made, _bench(bench, place, asked.layout), making, asked, timed, real, check=check)
            files = list(done.files)
            if place.suffix != ".onnx":
                files.extend(_write_side_files(model, checkpoint, bench))
            there = _placed(files, made, bench, place, asked)
    return _outcome(place, there, made, done, seconds)


def repeat(
    recipe: Recipe,
    checkpoint: Path,
    path: str | Path,
    *,
    templates: Path,
    overwrite: bool = False,
    layout: str = OPTIMUM,
    sidecar: str | None = None,
    threshold: int = PROTOBUF_LIMIT,
    weights: str | None = None,
    on_event: OnEvent = ignore,
) -> Exported | None:
    """Write a checkpoint's folder `checkpoint` as `export` would, unchecked and without its model; what was written.

    None, and nothing written, when a template of the recipe is not kept any more. `weights` cannot be `"link"`.
    """
    place, made = target(Path(path), overwrite=overwrite), recipe.plan
    asked = _write_options(layout, weights, threshold, sidecar)
    with _timed(on_event) as (timed, seconds):
        with timed("template", ""):
            graphs = graphs_of(recipe, templates, checkpoint)
        if graphs is None:
            return None
        with staging_folder(_folder(place)) as bench:
            files = list(write_graphs(made, graphs, _bench(bench, place, asked.layout), asked, timed, check=False))
            if place.suffix != ".onnx":
                files.extend((*write_texts(recipe.beside, bench), *copy_side_files(checkpoint, bench)))
            there = _placed(files, made, bench, place, asked)
    return _outcome(place, there, made, Attempt(graphs, there, None, _depths(graphs)), seconds)


def _write_options(layout: str, weights: str | None, threshold: int, sidecar: str | None) -> ResolvedWriteOptions:
    options = WriteOptions(
        layout=layout, weight_storage=weights, external_data_threshold=threshold, external_data_suffix=sidecar
    )
    return resolved_write_options(options)


def _write_side_files(model: Any, checkpoint: Path | None, folder: Path) -> tuple[Path, ...]:
    return (*write_configs(model, folder), *(copy_side_files(checkpoint, folder) if checkpoint else ()))


def _placed(files: list[Path], made: Plan, bench: Path, place: Path, asked: ResolvedWriteOptions) -> tuple[Path, ...]:
    """Put finished files in their place; weights of an earlier, larger export do not stay beside what reads others."""
    sidecars = [f"{part.name}{asked.external_data_suffix}" for part in made.parts]
    declare_external_data(bench, asked.layout, [file for file in files if file.name in sidecars])
    there = publish(tuple(dict.fromkeys(files)), bench, _folder(place))
    for old in {_graphs(place, asked.layout) / file for file in sidecars} - set(there):
        old.unlink(missing_ok=True)
    return there


def _bench(bench: Path, place: Path, layout: Layout) -> Path:
    """Where in a workshop ONNX files are written."""
    made = _graphs(bench / place.name if place.suffix == ".onnx" else bench, layout)
    made.mkdir(exist_ok=True)
    return made


def _outcome(place: Path, there: tuple[Path, ...], made: Plan, done: Attempt, seconds: dict[str, float]) -> Exported:
    limits = dict.fromkeys(limit for graph in done.graphs for limit in graph.meta[LIMITS])
    operators = tuple((part.name, fusions(graph)) for part, graph in zip(made.parts, done.graphs, strict=True))
    opset, times = made.parts[0].spec.target.opset or 0, seconds.items()
    return Exported(str(place), map(str, there), made, opset, times, done.report, limits, done.depths, operators)


def validate(
    spec: ExportSpec,
    model: Any,
    exported: Exported | str | Path,
    *,
    config: Any = None,
    preprocessor: Any = None,
    decoders: str = "merged",
    on_event: OnEvent = ignore,
) -> Report:
    """How far ONNX files are from a PyTorch model, on inputs that were not traced; judges nothing, `passed` does.

    `exported` is what `export` gave, an ONNX file, or the folder that holds the files of the plan: those that
    `export` writes with the same `decoders`. ModelNotFound when a file is not there. What
    the model's `preprocessor` makes of a text, an image or a tone is one more case.
    """
    if isinstance(exported, Exported):
        place, made = Path(exported.path), exported.plan
    else:
        place = Path(exported)
        decided = plan(with_model_task(spec, model), _config(model, config), decoders=decoders)
        made = _in_file(decided, place)
    folder = place.parent if place.suffix == ".onnx" else onnx_folder(place)
    with _timed(on_event) as (timed, _):
        return _checked(model, made, folder, timed, real_inputs_by_part(made, preprocessor))


@contextmanager
def owned(spec: ExportSpec) -> Iterator[None]:
    """What is refused of a spec that was derived says so, and how to say another."""
    try:
        yield
    except OnnxfnError as refused:
        if spec.derived is not None:
            refused.args = (f"{refused}; the spec was derived from {spec.derived}; {HOW_TO_SPECIFY}",)
        raise


@frozen
class Attempt:
    """Graphs, the files that hold them, and what a check of these found, if there was one."""

    graphs: tuple[Any, ...]
    files: tuple[Path, ...]
    report: Report | None
    depths: tuple[str, ...]

    @property
    def failed(self) -> bool:
        """Whether the check found a graph that does not compute what PyTorch computes."""
        return self.report is not None and not self.report.passed


def _proven(
    model: Any,
    made: Plan,
    bench: Path,
    making: BuildOptions,
    asked: ResolvedWriteOptions,
    timed: StageTimer,
    real: RealInputs,
    *,
    check: bool,
) -> Attempt:
    """Graphs that passed the check; what was not traced of this very model, or not whole, has a second trial."""

    def attempt(making: BuildOptions) -> Attempt:
        cast = cache(partial(in_dtype, model))
        graphs = tuple(build_graph(cast(part.spec.target.float_dtype), part, timed, making) for part in made.parts)
        files = write_graphs(made, graphs, bench, asked, timed, check=check)
        report = _checked(model, made, bench, timed, real) if check else None
        return Attempt(graphs, files, report, _depths(graphs))

    done = attempt(making)
    if done.failed and not all(map(traced_fully, done.graphs)):
        drop_templates(making, done.graphs)
        done = evolve(attempt(evolve(making, find_repeats=trace_all_layers, template_cache=None)), depths=(RETRACED,))
    if done.report is not None and done.failed:
        raise check_error(done.report)
    return done


def _depths(graphs: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(graph.meta[TRACED_LAYERS] for graph in graphs if graph.meta[TRACED_LAYERS]))


def _checked(model: Any, made: Plan, folder: Path, timed: StageTimer, real: RealInputs) -> Report:
    reports = []
    opens = cache(open_check_session)
    for part in made.parts:
        file = folder / f"{part.name}.onnx"
        if not file.is_file():
            raise ModelNotFound(
                f"no {file.name} in {folder}; there is: {', '.join(sorted(map(str, folder.glob('*.onnx')))) or 'none'}"
            )
        with timed("check", part.name):
            truths = references(model, part, real.get(part.name))
            reports.append(checked(model, part, file, made, session_for=opens, expected=truths))
    return Report(
        tuple(one for report in reports for one in report.differences),
        tuple(dict.fromkeys(case for report in reports for case in report.cases)),
    )


@contextmanager
def _timed(on_event: OnEvent) -> Iterator[tuple[Any, dict[str, float]]]:
    seconds: dict[str, float] = {}

    @contextmanager
    def timed(stage: str, part: str) -> Iterator[None]:
        on_event(Event(stage, part))
        start = perf_counter()
        yield
        spent = perf_counter() - start
        seconds[stage] = seconds.get(stage, 0.0) + spent
        on_event(Event(stage, part, spent))

    yield timed, seconds


def target(path: Path, *, overwrite: bool) -> Path:
    """The place to write to, as it is; OutputExists when it is taken and `overwrite` is false."""
    if path.suffix == ".onnx":
        taken = path.exists()
    else:
        if path.exists() and not path.is_dir():
            raise OutputExists(f"{path} is a file and does not end in .onnx; name a folder, or a file that does")
        taken = path.is_dir() and any(path.iterdir())
    if taken and not overwrite:
        raise OutputExists(
            f"{path} exists{'' if path.is_file() else ' and is not empty'}; "
            "choose another path, or pass overwrite=True (--overwrite)"
        )
    return path


def _folder(target: Path) -> Path:
    return target.parent if target.suffix == ".onnx" else target


def _graphs(target: Path, layout: Layout) -> Path:
    """The folder of the ONNX files: the one that is asked for, where that is a file."""
    return target.parent if target.suffix == ".onnx" else target / layout.subfolder


def _in_file(made: Plan, target: Path) -> Plan:
    """The plan for a file of this name: the one part is named after it."""
    if target.suffix != ".onnx":
        return made
    if len(made.parts) != 1:
        raise InvalidSpec(f"{', '.join(made.files)} are {len(made.parts)} files; name a folder, not {target.name}")
    return Plan((evolve(made.parts[0], name=target.stem),))


def _config(model: Any, config: Any) -> Any:
    return (config_of(model) or {}) if config is None else config

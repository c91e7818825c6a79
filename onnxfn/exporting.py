"""The one pipeline: plan -> capture -> passes -> write -> check."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from attrs import evolve

from onnxfn.capture import LIMITS, capture
from onnxfn.checking import check as checked
from onnxfn.checking import failed
from onnxfn.errors import InvalidSpec, NoModel, OutputExists
from onnxfn.graphs.fusing import STANDARD, fusable, fused, fusions
from onnxfn.graphs.merging import filled
from onnxfn.graphs.naming import named, stamped, stripped
from onnxfn.graphs.simplify import converted, shared, simplified
from onnxfn.layouts import configured, copied
from onnxfn.lookup import fitting
from onnxfn.planning import plan
from onnxfn.records import ExportSpec, Part, Plan
from onnxfn.results import Event, Exported, Report
from onnxfn.weights import LARGEST_MESSAGE, SIDECAR, moved, workshop, write

Tell = Callable[[Event], None]


def silent(_: Event) -> None:
    """Hear of no event."""


def export(
    spec: ExportSpec,
    model: Any,
    path: str | Path,
    *,
    check: bool = True,
    force: bool = False,
    beside: Path | None = None,
    config: Any = None,
    merge: bool = True,
    keep_parts: bool = False,
    fuse: str = STANDARD,
    sidecar: str = SIDECAR,
    threshold: int = LARGEST_MESSAGE,
    tell: Tell = silent,
) -> Exported:
    """Write a PyTorch model as ONNX and prove it against PyTorch; what was written, and how far it is off.

    `path` is a file (`model.onnx`) or a folder, which also gets the model's `config.json`, and the tokenizer and
    processor files of the checkpoint's folder `beside`. Weights of more than `threshold` bytes go to a file of their
    own, named with `sidecar`. `config` is the configuration of a model that carries none, or a dict of what the spec
    reads. One file stands for several where it can: `keep_parts` writes those too, `merge=False` those alone.
    `fuse="onnxruntime"` lets operators in that only ONNX Runtime has. `tell` hears of every step.

    The files appear only when all is well: InvalidSpec when the model is not one for the spec's task, OutputExists when
    the place is taken and `force` is false, CaptureFailed when the model cannot be traced as planned, CheckFailed when
    ONNX Runtime answers otherwise than PyTorch. The model and its configuration are left as they were found.
    """
    fitted = fitting(spec, model)
    place = target(Path(path), force=force)
    with _timed(tell) as (timed, seconds):
        with timed("plan", ""):
            decided = plan(fitted, _config(model, config), merge=merge, keep_parts=keep_parts)
            made = _in_file(decided, place)
            fusable(made.parts[0].spec.opset or 0, fuse)
        with workshop(_folder(place)) as bench:
            graphs = [(part, _graph(model, part, timed, fuse)) for part in made.parts]
            files: list[Path] = []
            for part, graph in graphs:
                with timed("write", part.name):
                    files.extend(write(graph, bench / f"{part.name}.onnx", threshold=threshold, sidecar=sidecar))
            report = _proven(model, made, bench, timed) if check else None
            if place.suffix != ".onnx":
                files.extend(dict.fromkeys((*configured(model, bench), *(copied(beside, bench) if beside else ()))))
            places = moved(tuple(files), _folder(place))
            _without_old(made, _folder(place), sidecar, places)
    first = made.parts[0].spec
    limits = dict.fromkeys(limit for _, graph in graphs for limit in graph.meta[LIMITS])
    done = Exported(str(place), map(str, places), made, first.opset or 0, seconds.items(), report, limits)
    return evolve(done, fusions=tuple((part.name, fusions(graph)) for part, graph in graphs))


def validate(
    spec: ExportSpec,
    model: Any,
    exported: Exported | str | Path,
    *,
    config: Any = None,
    merge: bool = True,
    keep_parts: bool = False,
    tell: Tell = silent,
) -> Report:
    """How far ONNX files are from a PyTorch model, on inputs that were not traced; judges nothing, `passed` does.

    `exported` is what `export` gave, an ONNX file, or the folder that holds the files of the plan: those that
    `export` writes when it is told the same of `merge` and `keep_parts`. NoModel when a file is not there.
    """
    if isinstance(exported, Exported):
        place, made = Path(exported.path), exported.plan
    else:
        place = Path(exported)
        decided = plan(fitting(spec, model), _config(model, config), merge=merge, keep_parts=keep_parts)
        made = _in_file(decided, place)
    with _timed(tell) as (timed, _):
        return _checked(model, made, _folder(place), timed)


def _without_old(made: Plan, folder: Path, sidecar: str, places: tuple[Path, ...]) -> None:
    """Weights of an earlier, larger export do not stay beside a file that does not read them."""
    for old in {folder / f"{part.name}{sidecar}" for part in made.parts} - set(places):
        old.unlink(missing_ok=True)


def _graph(model: Any, part: Part, timed: Any, fuse: str) -> Any:
    """The graph of a part, with its filler inside."""
    graph = _plain_graph(model, part, timed, fuse)
    for filler in part.filler:
        fills = {one.given: one.name for one in part.spec.carries}
        graph = shared(filled(graph, _plain_graph(model, filler, timed, fuse), fills))
    return graph


def _plain_graph(model: Any, part: Part, timed: Any, fuse: str) -> Any:
    with timed("capture", part.name):
        graph = capture(model, part)
    with timed("passes", part.name):
        graph = fused(converted(simplified(shared(graph)), part.spec.opset or 0), fuse)
        fusions(graph)
        facts = {
            "task": part.spec.task,
            "model": type(model).__name__,
            "limits": ", ".join(map(str, graph.meta[LIMITS])),
        }
        return stamped(stripped(named(graph, part)), {name: fact for name, fact in facts.items() if fact})


def _proven(model: Any, made: Plan, folder: Path, timed: Any) -> Report:
    report = _checked(model, made, folder, timed)
    if not report.passed:
        raise failed(report)
    return report


def _checked(model: Any, made: Plan, folder: Path, timed: Any) -> Report:
    reports = []
    for part in made.parts:
        file = folder / f"{part.name}.onnx"
        if not file.is_file():
            raise NoModel(
                f"no {file.name} in {folder}; there is: {', '.join(sorted(map(str, folder.glob('*.onnx')))) or 'none'}"
            )
        with timed("check", part.name):
            reports.append(checked(model, part, file, made))
    return Report(
        tuple(one for report in reports for one in report.differences),
        tuple(dict.fromkeys(case for report in reports for case in report.cases)),
    )


@contextmanager
def _timed(tell: Tell) -> Iterator[tuple[Any, dict[str, float]]]:
    seconds: dict[str, float] = {}

    @contextmanager
    def timed(stage: str, part: str) -> Iterator[None]:
        tell(Event(stage, part))
        start = perf_counter()
        yield
        spent = perf_counter() - start
        seconds[stage] = seconds.get(stage, 0.0) + spent
        tell(Event(stage, part, spent))

    yield timed, seconds


def target(path: Path, *, force: bool) -> Path:
    """The place to write to, as it is; OutputExists when it is taken and `force` is false."""
    if path.suffix == ".onnx":
        taken = path.exists()
    else:
        if path.exists() and not path.is_dir():
            raise OutputExists(f"{path} is a file and does not end in .onnx; name a folder, or a file that does")
        taken = path.is_dir() and any(path.iterdir())
    if taken and not force:
        raise OutputExists(
            f"{path} exists{'' if path.is_file() else ' and is not empty'}; choose another place, or force"
        )
    return path


def _folder(target: Path) -> Path:
    return target.parent if target.suffix == ".onnx" else target


def _in_file(made: Plan, target: Path) -> Plan:
    """The plan for a file of this name: the one part is named after it."""
    if target.suffix != ".onnx":
        return made
    if len(made.parts) != 1:
        raise InvalidSpec(f"{', '.join(made.files)} are {len(made.parts)} files; name a folder, not {target.name}")
    return Plan((evolve(made.parts[0], name=target.stem),))


def _config(model: Any, config: Any) -> Any:
    return getattr(model, "config", {}) if config is None else config

"""Random pairs of a model type and a task, exported by onnxfn and by transformers.exporters, and judged by one rule.

    PYTHONPATH=tests/helpers:tests/tiny_models python benchmarks/pairs.py [--count 100] [--left] [--json FILE]

The pairs are drawn from those of `tests/sweeps/heads.json` that have a tiny model. Each pair has a process of its own.
The peer exports the modules that onnxfn exports, with the same arguments, those of the traced sizes. Its graphs run
through its own `ExportedModel`. They are compared with PyTorch at the traced sizes and in the cases of onnxfn's check,
by the rule of that check. The peer is tried in each of `WAYS`, and its best result counts.
"""

from __future__ import annotations

import argparse
import copy
import inspect
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import every_head
import swept
from agreement import assert_agreement
from figures import RESULTS, Required, print_and_save
from time_limits import limited

import onnxfn
from onnxfn.check.cases.references import CheckCase, Reference, case_reference, references
from onnxfn.check.check import differences
from onnxfn.check.verdict.case_comparisons import case_comparisons
from onnxfn.check.verdict.verdict import exact_outputs
from onnxfn.models import forward
from onnxfn.models.forward import torch_outputs
from onnxfn.models.patching import replaced
from onnxfn.models.submodules import submodule_of
from onnxfn.specs.algebra.planned import Part, Plan
from onnxfn.specs.converters import at

NAME, SEED, AGREES = "pairs", "transformers.exporters", "agrees"

SECONDS, LONGEST = 120, 900
"""The limit of processor time of an export with its comparisons, and the seconds after which a process is ended."""

NOT_RUNNING = (every_head.NO_MODEL, "has no forward", "integer modulo by zero")
"""What lines of the sweep say of models that PyTorch itself cannot run: they are not drawn."""

WAYS: Sequence[Mapping[str, Any]] = (
    {"dynamic": True},
    {"dynamic": True, "prefer_deferred_runtime_asserts_over_guards": True},
    {"dynamic": True, "optimize": False},
)
"""The options of the peer that its documentation names for graphs of several sizes, in the order of the trials."""

Row = dict[str, Any]
Run = Callable[[Mapping[str, Any]], tuple[Any, ...]]


def drawn(count: int) -> list[tuple[str, str]]:
    """A random sample of the pairs that have a tiny model which runs."""
    lines = {(name, task): line for name, tasks in swept.seen(every_head.NAME).items() for task, line in tasks.items()}
    runs = [" ".join(pair) for pair, line in lines.items() if not any(text in line for text in NOT_RUNNING)]
    return sorted((name, task) for name, task in map(str.split, swept.sampled(runs, count, SEED)))


# In a process of its own


def row(model_type: str, task: str) -> Row:
    """What onnxfn's export of a pair gave, and the best result of the peer at the traced sizes and at others."""
    new_model = partial(every_head.tiny_model, model_type, task)
    with tempfile.TemporaryDirectory() as folder:
        ours, plan, largest = by_onnxfn(new_model(), task, Path(folder) / "onnxfn")
        theirs = (
            by_peer(new_model, plan, largest, Path(folder)) if plan else (f"{swept.NOT}no arguments are known",) * 2
        )
    return {"model": model_type, "task": task, "onnxfn": ours, "traced": theirs[0], "others": theirs[1]}


def by_onnxfn(model: Any, task: str, folder: Path) -> tuple[str, Plan | None, Mapping[str, int]]:
    """The line of onnxfn's export, its plan, and the largest sizes that the model takes; no plan if it is refused."""
    try:
        plan = onnxfn.plan(onnxfn.spec_for(model, task), model.config)
    except onnxfn.OnnxfnError as error:
        return swept.NOT + reason(error), None, {}
    try:
        with limited(SECONDS):
            result = assert_agreement(onnxfn.export(onnxfn.spec_for(model, task), model, folder), folder)
    except (Exception, AssertionError) as error:  # noqa: BLE001 - each reason is a result
        return swept.NOT + reason(error), plan, {}
    return AGREES, result.plan, {limit.name: limit.high for limit in result.limits if limit.high is not None}


def by_peer(new_model: Callable[[], Any], plan: Plan, largest: Mapping[str, int], folder: Path) -> tuple[str, str]:
    """The best of the peer's results over its ways; the trials end when one is right at all sizes."""
    results = []
    for number, options in enumerate(WAYS):
        results.append(trial(new_model, plan, largest, options, folder / f"peer{number}"))
        if results[-1] == (AGREES, AGREES):
            break
    return max(results, key=lambda result: [each == AGREES for each in result])


def trial(
    new_model: Callable[[], Any], plan: Plan, largest: Mapping[str, int], options: Mapping[str, Any], folder: Path
) -> tuple[str, str]:
    """The peer's result in one way: each part of a plan is exported alone; the first that fails decides."""
    for part in plan.parts:
        try:
            with limited(SECONDS):
                first = case_reference(new_model(), part, CheckCase("traced", part.spec))
                others = [*references(new_model(), part, largest=largest)]
                run = peer_runner(new_model, part, first.inputs, options, folder / part.name)
                file = folder / part.name / "model.onnx"
                result = tuple(verdict(new_model(), part, file, run, each) for each in ([first], others))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - each reason is a result
            result = (swept.NOT + reason(error),) * 2
        if result != (AGREES, AGREES):
            return result
    return AGREES, AGREES


def peer_runner(
    new_model: Callable[[], Any], part: Part, inputs: Mapping[str, Any], options: Mapping[str, Any], folder: Path
) -> Run:
    """Exports a part with the peer; a function from arrays to the outputs of its graph in ONNX Runtime."""
    import torch
    from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter

    model = new_model()
    module = submodule_of(exported_model := new_model(), part.spec.call.submodule)
    if type(module) is torch.nn.Module:  # a function as a module: with its model inside it has weights
        module.model = exported_model
    exported = OnnxExporter().export(module, forward_arguments(model, part, inputs), OnnxConfig(**options))
    exported.save_pretrained(folder)

    def run(arrays: Mapping[str, Any]) -> tuple[Any, ...]:
        result = exported(**forward_arguments(model, part, arrays))
        return tuple(at(output.forward_path, result).numpy() for output in part.spec.outputs)

    return run


def forward_arguments(model: Any, part: Part, arrays: Mapping[str, Any]) -> Row:
    """The arguments with which PyTorch calls the module of a part, and those that the peer computes beforehand."""
    from transformers.exporters.utils import precompute_export_inputs

    with recorded_calls() as calls:
        torch_outputs(model, part, arrays)
    module, places, named = calls[0]
    arguments = {**dict(zip(inspect.signature(module.forward).parameters, places, strict=False)), **named}
    precompute_export_inputs(module, arguments)
    return arguments


@contextmanager
def recorded_calls() -> Iterator[list[tuple[Any, Any, Any]]]:
    """Each module that onnxfn runs meanwhile, with a copy of the arguments of the call."""
    calls: list[tuple[Any, Any, Any]] = []

    def record_call(module: Any, places: Any, named: Any) -> None:
        calls.append((module, *copy.deepcopy((places, named))))

    with ExitStack() as hooks:

        def recording(model: Any, name: str | None) -> Any:
            module = submodule_of(model, name)
            hooks.callback(module.register_forward_pre_hook(record_call, with_kwargs=True).remove)
            return module

        with replaced(forward, "submodule_of", recording):
            yield calls


def verdict(model: Any, part: Part, file: Path, run: Run, expected: Sequence[Reference]) -> str:
    """`AGREES` if the peer's graph agrees with PyTorch in all cases by the rule of onnxfn's check, else why not."""
    exact, comparisons = exact_outputs(model, part.spec.target.float_dtype), []
    for reference in expected:
        try:
            outputs = run(reference.inputs)
        except Exception as error:  # noqa: BLE001 - each reason is a result
            return f"{swept.NOT}at {reference.case}: {reason(error)}"
        comparisons += case_comparisons(model, part, file, reference, outputs, exact, comparisons)
    wrong = [each for each in differences(part, comparisons) if not each.passed]
    texts = (f"{each.output} is {each.max_abs:.1e} away at {each.worst_case}" for each in wrong)
    return f"{swept.NOT}{'; '.join(texts)}"[:200] if wrong else AGREES


def reason(error: BaseException) -> str:
    """An error in one line of 200 characters: that which caused the others."""
    error = error.__cause__ or error
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


# The command


def measured(model_type: str, task: str) -> Row:
    """The row of a pair, from a process of its own."""
    command = [sys.executable, __file__, "--pair", model_type, task]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False)
        lines = [line for line in run.stdout.splitlines() if line.startswith('{"model"')]
        why = f"{swept.NOT}the process ended with {run.returncode}"
    except subprocess.TimeoutExpired:
        lines, why = [], f"{swept.NOT}no result after {LONGEST} s"
    died = {"model": model_type, "task": task, "onnxfn": why, "traced": why, "others": why}
    return json.loads(lines[-1]) if lines else died


def required(rows: Sequence[Row]) -> list[Required]:
    """How many pairs each exporter has not right."""
    wrong = {key: sum(each[key].startswith(swept.NOT) for each in rows) for key in ("onnxfn", "others")}
    return [
        Required(f"of {len(rows)} random pairs: not right by onnxfn", float(wrong["onnxfn"]), 0.05 * len(rows)),
        Required(
            "not right by onnxfn / not right by transformers.exporters", wrong["onnxfn"] / max(1, wrong["others"]), 0.5
        ),
    ]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--count", type=int, default=100)
    arguments.add_argument("--left", action="store_true", help="Leave out pairs that have a row.")
    arguments.add_argument("--pair", nargs=2, help="Print the row of this pair.")
    arguments.add_argument("--json", type=Path, default=RESULTS / f"{NAME}.json")
    options = arguments.parse_args()
    if options.pair:
        print(json.dumps(row(*options.pair)))
        return
    before = json.loads(options.json.read_text())["rows"] if options.left and options.json.is_file() else []
    known = {(each["model"], each["task"]): each for each in before}
    rows = [known.get(pair) or measured(*pair) for pair in drawn(options.count)]
    print_and_save(NAME, rows, required(rows), options.json, runs=1)


if __name__ == "__main__":
    main()

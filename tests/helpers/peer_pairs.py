"""Pairs of a model type and a task, each exported by onnxfn and by transformers.exporters, and judged by one rule.

The peer exports the same modules with the same arguments as onnxfn: those of the traced sizes. Its graphs run through
its own `ExportedModel`. They are compared with PyTorch at the traced sizes, and in the cases of onnxfn's check, which
have other sizes, by the rule of that check. The peer is tried in each of `WAYS`, and its best result counts.
"""

from __future__ import annotations

import copy
import inspect
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import every_head
import numpy as np
import swept
from agreement import assert_agreement
from attrs import evolve, frozen
from peer_specs import SPECS
from time_limits import limited

import onnxfn
from onnxfn.check.case_comparisons import case_comparisons
from onnxfn.check.cases import CheckCase
from onnxfn.check.check import differences
from onnxfn.check.exact_outputs import exact_outputs
from onnxfn.check.references import Reference, case_reference, references
from onnxfn.graphs.capture import forward
from onnxfn.graphs.capture.forward import torch_outputs
from onnxfn.graphs.capture.patching import replaced
from onnxfn.graphs.capture.submodules import submodule_of
from onnxfn.specs.axes import symbols
from onnxfn.specs.planned import Part, Plan
from onnxfn.specs.tensor_paths import at

NAME, PEER = "peers", "transformers.exporters"
"""The file of the results in tests/sweeps, and the library that onnxfn is compared with."""

COUNT, SEED = 100, "transformers.exporters"
"""How many pairs are drawn, and the seed."""

SECONDS = 120
"""The limit of processor time for an export with its comparisons: of onnxfn, and of the peer in each way."""

LONGEST = 900
"""Seconds after which the process of a pair is ended."""

AGREES = "agrees"

MASK = "encoder_attention_mask"
"""The output of an encoder that says which of its frames are no padding: the peer's graphs have zeros elsewhere."""

COLORS = re.compile("\x1b\\[\\d+m")
"""What torch writes around words for terminals."""

NOT_RUNNING = ("has no forward", "integer modulo by zero")
"""What the results of every_head.py say of models that PyTorch itself cannot run: they are not drawn."""

WAYS: Mapping[str, Mapping[str, Any]] = {
    "dynamic=True": {"dynamic": True},
    "dynamic_shapes of the plan's axes": {},
    "prefer_deferred_runtime_asserts_over_guards=True": {
        "dynamic": True,
        "prefer_deferred_runtime_asserts_over_guards": True,
    },
    "optimize=False": {"dynamic": True, "optimize": False},
}
"""The options of the peer that its documentation names for graphs of several sizes, in the order of the trials."""


@frozen
class Trial:
    """The peer's result in one way: `AGREES`, or `not: ` and the reason, at the traced sizes and at others."""

    way: str
    traced: str
    others: str

    @property
    def rank(self) -> tuple[bool, bool]:
        return (self.traced == self.others == AGREES, self.traced == AGREES)


def drawn() -> tuple[tuple[str, str], ...]:
    """The pairs of the comparison: a random sample of those that every_head.py has a running tiny model of.

    It changes by a pair or two when tiny models are added: `--left` then records these pairs.
    """
    lines = {(name, task): line for name, tasks in swept.seen(every_head.NAME).items() for task, line in tasks.items()}
    runs = {pair for pair in every_head.pairs() if pair in lines and _runs(lines[pair])}
    chosen = swept.sampled(map(" ".join, runs), COUNT, SEED)
    return tuple(sorted((name, task) for name, task in map(str.split, chosen)))


def _runs(line: str) -> bool:
    return not line.startswith(every_head.NO_MODEL) and not any(text in line for text in NOT_RUNNING)


def seen() -> dict[str, dict[str, dict[str, str]]]:
    """The recorded results: {model type: {task: {"onnxfn", "traced", "others", "way"}}}."""
    return swept.recorded(NAME)["results"]


def record(model_type: str, task: str, result: Mapping[str, str]) -> None:
    """Adds the result of a pair to the file; those of pairs that are not drawn are dropped."""

    def added(results: Mapping[str, Any]) -> dict[str, Any]:
        every = {**results, model_type: {**results.get(model_type, {}), task: dict(result)}}
        pairs = drawn()
        chosen = {name: {key: of for key, of in tasks.items() if (name, key) in pairs} for name, tasks in every.items()}
        return {name: tasks for name, tasks in chosen.items() if tasks}

    swept.update(NAME, added, (model_type, task))


# In a process of its own


def compared(model_type: str, task: str) -> dict[str, str]:
    """What onnxfn's export of a pair gave, and the best result of the peer."""
    import transformers

    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as folder:
        line, planned, limits = ours(model_type, task, Path(folder) / "onnxfn")
        plans = [planned] if planned is not None else []
        plans += [onnxfn.plan(SPECS[pair], _model(*pair).config)] if (pair := (model_type, task)) in SPECS else []
        trial = best_trial(partial(_model, model_type, task), plans, limits, Path(folder))
    return {"onnxfn": line, "traced": trial.traced, "others": trial.others, "way": trial.way}


def ours(model_type: str, task: str, folder: Path) -> tuple[str, Plan | None, Mapping[str, int]]:
    """The line of onnxfn's export, its plan, and the largest sizes that the model takes; no plan if it is refused."""
    model = _model(model_type, task)
    try:
        spec = onnxfn.spec_for(model, task)
        with limited(SECONDS):
            result = onnxfn.export(spec, model, folder)
            line = swept.line(assert_agreement(result, folder))
    except (Exception, AssertionError) as error:  # noqa: BLE001 - each reason is a result
        line = swept.NOT + reason(error)
        try:
            result = onnxfn.export(spec, model, folder, check=False)
        except Exception:  # noqa: BLE001
            return line, _plan(model, task), {}
    return line, result.plan, {limit.name: limit.high for limit in result.limits if limit.high is not None}


def _plan(model: Any, task: str) -> Plan | None:
    try:
        return onnxfn.plan(onnxfn.spec_for(model, task), model.config)
    except onnxfn.OnnxfnError:
        return None


def best_trial(new_model: Callable[[], Any], plans: Sequence[Plan], largest: Mapping[str, int], folder: Path) -> Trial:
    """The best of the peer's results, over its ways and over the plans; the trials end when one is right."""
    best = Trial("", f"{swept.NOT}no arguments are known", f"{swept.NOT}no arguments are known")
    for planned in plans:
        try:
            expected = {part.name: _expected(new_model(), part, largest) for part in planned.parts}
        except Exception as error:  # noqa: BLE001 - PyTorch runs on no such arguments
            best = Trial("", *2 * (f"{swept.NOT}{reason(error)}",)) if not best.way else best
            continue
        for number, way in enumerate(WAYS):
            result = trial(new_model, planned, expected, way, folder / f"peer{number}")
            best = max(best, result, key=lambda each: each.rank) if best.way else result
            if all(best.rank):
                return best
    return best


def trial(
    new_model: Callable[[], Any], planned: Plan, expected: Mapping[str, Sequence[Reference]], way: str, folder: Path
) -> Trial:
    """The peer's result in one way: each part of a plan is exported alone; the first that fails decides."""
    traced = others = AGREES
    for part in planned.parts:
        try:
            with limited(SECONDS):
                first, *rest = expected[part.name]
                run = peer_runner(new_model, part, first.inputs, way, folder / part.name)
                traced = verdict(new_model(), part, folder / part.name / "model.onnx", run, [first])
                others = verdict(new_model(), part, folder / part.name / "model.onnx", run, rest)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - each reason is a result
            traced = others = swept.NOT + reason(error)
        if not traced == others == AGREES:
            break
    return Trial(way, traced, others)


def _expected(model: Any, part: Part, largest: Mapping[str, int]) -> list[Reference]:
    """PyTorch's outputs at the traced sizes, then in the cases of the check."""
    traced = case_reference(model, part, CheckCase("traced", part.spec))
    return [traced, *references(model, part, largest=largest)]


def peer_runner(
    new_model: Callable[[], Any], part: Part, inputs: Mapping[str, Any], way: str, folder: Path
) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """Exports a part with the peer; a function from arrays to the outputs of its graph in ONNX Runtime."""
    from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter

    model = new_model()
    arguments = forward_arguments(model, part, inputs)
    options = dict(WAYS[way]) or {"dynamic_shapes": planned_axes(part, arguments)}
    module = module_for_peer(new_model(), part.spec.call.submodule)
    exported = OnnxExporter().export(module, arguments, OnnxConfig(**options))
    exported.save_pretrained(folder)

    def run(arrays: Mapping[str, Any]) -> tuple[Any, ...]:
        result = exported(**forward_arguments(model, part, arrays))
        return tuple(at(output.forward_path, result).numpy() for output in part.spec.outputs)

    return run


def forward_arguments(model: Any, part: Part, arrays: Mapping[str, Any]) -> dict[str, Any]:
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


def module_for_peer(model: Any, name: str | None) -> Any:
    """The module of a part; a function as a module gets the model as a submodule, so that it has its weights."""
    import torch

    module = submodule_of(model, name)
    if type(module) is torch.nn.Module:
        module.model = model
    return module


def planned_axes(part: Part, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The peer's `dynamic_shapes`: the axes that the plan calls dynamic; those of other arguments as it finds them."""
    import torch
    from transformers.exporters.exporter_dynamo import get_auto_dynamic_shapes
    from transformers.exporters.utils import _OUTPUT_FLAGS

    axes = {
        input_.forward_path[0]: dict.fromkeys(symbols(input_.axes), torch.export.Dim.DYNAMIC)
        for input_ in part.spec.inputs
        if len(input_.forward_path) == 1
    }
    return {
        name: axes[name] if name in axes else get_auto_dynamic_shapes(value)
        for name, value in arguments.items()
        if name not in _OUTPUT_FLAGS
    }


def verdict(
    model: Any, part: Part, file: Path, run: Callable[[Any], tuple[Any, ...]], expected: Sequence[Reference]
) -> str:
    """`AGREES` if the peer's graph agrees with PyTorch in all cases by the rule of onnxfn's check, else why not."""
    exact, comparisons = exact_outputs(model, part.spec.target.float_dtype), []
    for reference in expected:
        try:
            outputs = run(reference.inputs)
        except Exception as error:  # noqa: BLE001 - each reason is a result
            return f"{swept.NOT}at {reference.case}: {reason(error)}"[:300]
        actual, answer = (without_padding(part, arrays, reference.outputs) for arrays in (outputs, reference.outputs))
        valid = evolve(reference, outputs=answer)
        comparisons += case_comparisons(model, part, file, valid, actual, exact, comparisons)
    wrong = [each for each in differences(part, comparisons) if not each.passed]
    texts = (f"{each.output} is {each.max_abs:.1e} away at {each.worst_case}" for each in wrong)
    return f"{swept.NOT}{'; '.join(texts)}"[:300] if wrong else AGREES


def without_padding(part: Part, arrays: Sequence[Any], expected: Sequence[Any]) -> tuple[Any, ...]:
    """The outputs of a part, with zeros where its own output `encoder_attention_mask` says that frames are padding."""
    names = [output.name for output in part.spec.outputs]
    if MASK not in names:
        return tuple(arrays)
    mask = expected[names.index(MASK)].astype(bool)
    is_masked = [array.ndim > mask.ndim and array.shape[: mask.ndim] == mask.shape for array in arrays]
    pairs = zip(arrays, is_masked, strict=True)
    return tuple(np.where(mask[..., None], array, 0).astype(array.dtype) if yes else array for array, yes in pairs)


def reason(error: BaseException) -> str:
    """An error in one line of 240 characters: that which caused the others."""
    error = error.__cause__ or error
    return " ".join(COLORS.sub("", f"{type(error).__name__}: {error}").split())[:240]


def _model(model_type: str, task: str) -> Any:
    return every_head.tiny_model(model_type, task)

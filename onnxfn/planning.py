"""From a spec and a configuration to a plan: pure, made before any weight is read; everything is decided here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve

from onnxfn.algebra import compose
from onnxfn.axes import settled
from onnxfn.errors import MissingValue, unknown
from onnxfn.families import DEFAULTS
from onnxfn.generators import Array, dummies
from onnxfn.normalizers import Snapshot, holds, look, snapshot
from onnxfn.records import ExportSpec, Generator, Getter, Overlay, Part, Plan, Source
from onnxfn.tasks import for_task, task_names

DEFAULT_TASK = "feature-extraction"


def plan(spec: ExportSpec, config: Any) -> Plan:
    """What an export of this spec will do for a model with this configuration.

    `config` is a transformers configuration, a model, or a plain dict. A spec that has tasks and is for none of them is
    taken for feature-extraction, or else for the first. MissingValue when the configuration lacks what the spec reads.

    >>> from onnxfn import bert_inputs, compose, text_encoder
    >>> made = plan(compose(text_encoder, bert_inputs), {"vocab_size": 99, "type_vocab_size": 2})
    >>> made.parts[0].outputs
    {'last_hidden_state': {0: 'batch_size', 1: 'sequence_length'}}
    """
    return Plan((Part("model", resolved(spec, snapshot(config))),))


def inputs(spec: ExportSpec, config: Any) -> dict[str, dict[int, str]]:
    """`{name: {axis: symbol}}` of what goes into the first file of the plan."""
    return plan(spec, config).parts[0].inputs


def outputs(spec: ExportSpec, config: Any) -> dict[str, dict[int, str]]:
    """`{name: {axis: symbol}}` of what comes out of the first file of the plan."""
    return plan(spec, config).parts[0].outputs


def dummy_inputs(
    spec: ExportSpec, config: Any, framework: str = "pt", *, seed: int = 0, **sizes: int
) -> dict[str, Any]:
    """Dummy tensors for the first file of the plan, of Optimum's sizes unless said: `sequence_length=8`.

    `framework` is `pt` (torch tensors) or `np` (numpy arrays). A size that no input has is UnknownName.
    """
    made = dummies(plan(spec, config).parts[0].spec, sizes, seed=seed)
    return as_framework(made, framework)


def as_framework(arrays: Mapping[str, Array], framework: str) -> dict[str, Any]:
    """Arrays as tensors of a framework, `pt` (torch) or `np` (numpy)."""
    if framework == "np":
        return dict(arrays)
    if framework != "pt":
        raise unknown("framework", framework, ("pt", "np"))
    import torch

    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def resolved(spec: ExportSpec, config: Snapshot) -> ExportSpec:
    """The spec with the configuration's facts in place of their names, and the conditions decided."""
    chosen = compose(DEFAULTS, spec if spec.task or not spec.tasks else for_task(spec, _default_task(spec)))
    taken = tuple(_tensor(chosen, config, one) for one in chosen.inputs if holds(chosen.normalizer, config, one.when))
    used = {one.generator for one in taken}
    return evolve(
        chosen,
        inputs=taken,
        outputs=tuple(
            _tensor(chosen, config, one) for one in chosen.outputs if holds(chosen.normalizer, config, one.when)
        ),
        generators=tuple(_settled(chosen, config, made) for made in chosen.generators if made.name in used),
        cases=tuple(_case(chosen, config, one, used) for one in chosen.cases),
        tasks=(),
    )


def _default_task(spec: ExportSpec) -> str:
    known = task_names(spec)
    return DEFAULT_TASK if DEFAULT_TASK in known else known[0]


def _tensor(spec: ExportSpec, config: Snapshot, one: Any) -> Any:
    def size(symbol: str) -> int:
        return int(_told(spec, config, symbol, f"axis {symbol!r} of {one.name!r}"))

    return evolve(one, axes=settled(one.axes, size), when=None)


def _settled(spec: ExportSpec, config: Snapshot, made: Generator) -> Generator:
    def settled_argument(name: str, given: Any) -> Any:
        return _told(spec, config, given, f"{name!r} of {made.name}") if isinstance(given, Getter) else given

    return evolve(made, arguments={name: settled_argument(name, given) for name, given in made.arguments})


def _case(spec: ExportSpec, config: Snapshot, overlay: Overlay, used: set[str]) -> Overlay:
    made = tuple(_settled(spec, config, one) for one in overlay.spec.generators if one.name in used)
    return evolve(overlay, spec=evolve(overlay.spec, generators=made))


def _told(spec: ExportSpec, config: Snapshot, source: Source, where: str) -> Any:
    try:
        return look(spec.normalizer, config, source)
    except MissingValue as problem:
        raise MissingValue(f"{where} of {spec.name or 'this spec'}: {problem}") from None

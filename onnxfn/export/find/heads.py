"""The heads of a model type: the tasks of its row, and those for which transformers lists a class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import evolve

from onnxfn.architectures.families.heads import family_head
from onnxfn.export.derive.auto_tables import is_listed, listed_classes, listed_loader, listed_tasks, loaded_classes
from onnxfn.export.derive.candidate_inputs import forward_parameters
from onnxfn.export.derive.causal_masks import masked_by_eager
from onnxfn.export.derive.derive import derive_from_model, shown_by
from onnxfn.export.derive.probe import accepted, answer_tensors, outputs_spec
from onnxfn.models.model_state import model_copy
from onnxfn.specs.algebra.compose import compose
from onnxfn.specs.algebra.facts import loads
from onnxfn.specs.algebra.spec import Call, ExportSpec, Parts
from onnxfn.specs.errors import InvalidSpec, unknown
from onnxfn.specs.tasks.tasks import DEFAULT_TASK, TASKS, WITH_PAST, canonical, for_task, task_names


def known_tasks(row: ExportSpec) -> tuple[str, ...]:
    """The tasks of a row, then those for which transformers lists a class of its model type."""
    return tuple(dict.fromkeys((*task_names(row), *listed_tasks(row.name or ""))))


def for_head(row: ExportSpec, task: str, model_or_config: Any = None) -> ExportSpec:
    """The spec of a row for a task of the row, or for a task of its model type in the tables of transformers.

    Its outputs come from a task of the row with the same class, or from the row's family. Otherwise the model is run;
    its configuration suffices.

    UnknownName if neither the row nor transformers has the task. InvalidSpec if the outputs are not known without a
    run, and there is no model.
    """
    name = canonical(task)
    if row.task is not None or name in task_names(row):
        return for_task(row, task)
    known = known_tasks(row)
    if name not in known and not is_listed(type(model_or_config).__name__, name):
        raise unknown("task", task, known, of=row.name or "this spec")
    head = _same_head(row, name) or family_head(row, name)
    loader = loads(listed_loader(row.name or "", name) or "AutoModel")
    if head is not None:
        return compose(for_task(compose(row, head), name), loader)
    if model_or_config is None:
        raise InvalidSpec(
            f"a run of the model shows the outputs of {name} of {row.name}; "
            f"pass the model or its configuration: spec_for(model, {name!r})"
        )
    return compose(shown_by(model_or_config, name, lambda model: _shown_by_model(row, model, name)), loader)


def _same_head(row: ExportSpec, task: str) -> ExportSpec | None:
    """The spec of a task with the same class as a task of the row; None if there is no such task.

    The task of the row must have a single file, except for feature-extraction: AutoModel loads a model with its head if
    transformers has no class without a head.
    """
    classes = listed_classes(row.name or "", task)
    for overlay in row.tasks:
        is_same = loaded_classes(row.name or "", overlay.spec.call.loader) == classes
        single_file = not overlay.spec.parts.files
        if is_same and (single_file or task == DEFAULT_TASK) and not overlay.name.endswith(WITH_PAST):
            return ExportSpec(tasks=(evolve(overlay, name=task),))
    return None


def _shown_by_model(row: ExportSpec, model: Any, task: str) -> ExportSpec:
    """The spec with inputs of the row on which the model runs, and the outputs of the run; else a derived spec."""
    copy = model_copy(model)
    arguments = forward_parameters(copy).keys()
    # `**kwargs` takes inputs that the model never reads, such as those of an encoder.
    read = (spec for spec in _possible_inputs(row) if arguments >= {input_.forward_path[0] for input_ in spec.inputs})
    for inputs, runs in accepted(copy, read, answer_tensors, []):
        outputs = outputs_spec(runs).outputs
        usual = {output.name for output in TASKS[task].outputs}
        chosen = tuple(output for output in outputs if output.name in usual) or outputs
        if chosen:
            source = f"{type(model).__name__} with the inputs of the row; task {task}"
            return compose(evolve(inputs, task=task, outputs=chosen, derived=source), masked_by_eager(copy))
    return compose(ExportSpec(call=Call(patches=row.call.patches)), derive_from_model(model, task))


def _possible_inputs(row: ExportSpec) -> Iterator[ExportSpec]:
    """The row without tasks and outputs; then the row for each of its tasks and of its behaviors, likewise."""
    tasks = (for_task(row, task) for task in task_names(row))
    behaviors = (compose(row, overlay.spec) for overlay in row.parts.behaviors)
    for spec in (row, *(spec for spec in tasks if not spec.parts.files), *behaviors):
        if spec.inputs:
            call = evolve(spec.call, submodule=None)
            yield evolve(spec, task=None, tasks=(), outputs=(), parts=Parts(), call=call)
